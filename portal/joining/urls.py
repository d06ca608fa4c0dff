"""URLs of joining servers."""

from django.urls import path

from portal.joining.views.join_tokens import authority, join_token_end, join_tokens
from portal.joining.views.joining import node_join, node_new

urlpatterns = [
    path("new-node", node_new, name="node-new"),
    path("authority.crt", authority, name="authority"),
    path("join-tokens", join_tokens, name="join-tokens"),
    path("join-tokens/<int:token_id>/revoke", join_token_end, name="join-token-revoke"),
    path("cluster/nodes/<name:name>/join", node_join, name="node-join"),
]
