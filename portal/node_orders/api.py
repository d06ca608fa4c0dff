"""REST: containers that a node runs and the portal does not know."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from portal.accounts.rest import ApiView
from portal.accounts.rights import Action
from portal.common.serializers import Body, Text
from portal.node_orders.services.unknown_containers import stranger_stop
from portal.teams.selectors.visible import node_with_right


class StrangerStopBody(Body):
    reason = Text(max_length=500, allow_blank=True, default="")


class StrangerStopView(ApiView):
    """An unknown container."""

    @extend_schema(operation_id="unknown_container_stop", request=StrangerStopBody, responses={204: None})
    def post(self, request: Request, name: str, attempt: str) -> Response:
        """Stops a container that the node lists under `unknown_containers`: SIGTERM, the grace, SIGKILL; then it is
        removed with what is left of its log, and its GPUs are free again. For administrators."""
        node = node_with_right(user=self.user, name=name, action=Action.NODE_SET_INTENT)
        stranger_stop(node=node, attempt=attempt, **self.body(StrangerStopBody), **self.by)
        return Response(status=204)
