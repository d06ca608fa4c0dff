"""URLs of its pages."""

from django.urls import path

from portal.node_orders.views import stranger_end

urlpatterns = [
    path("cluster/nodes/<name:name>/unknown/<name:attempt>/stop", stranger_end, name="stranger-end"),
]
