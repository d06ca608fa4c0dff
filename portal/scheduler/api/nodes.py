"""REST: a node that is taken away."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from portal.accounts.rights import Action
from portal.cluster.api.nodes import NodeView
from portal.common.parameters import DRY_RUN, dry_run
from portal.scheduler.api.answers import NodeRemovedAnswer
from portal.scheduler.changes import node_remove
from portal.teams.selectors.visible import node_with_right


class RemovableNodeView(NodeView):
    """One node, also to remove it."""

    @extend_schema(operation_id="node_remove", parameters=[DRY_RUN], request=None, responses={200: NodeRemovedAnswer})
    def delete(self, request: Request, name: str) -> Response:
        """Takes a server out of the cluster: it is listed no more, its key opens nothing, and its name is free. The
        jobs that ran on it and their usage stay. 409 while tasks run on it (drain it first), or while reserved cells,
        cells of a configuration or quotas of racks need it. `dry_run=true` says what would be short (`the quotas need
        12 A100, 8 are there`), which jobs would lose their guarantee, and which that wait may run nowhere else. For
        administrators."""
        node = node_with_right(user=self.user, name=name, action=Action.NODE_REMOVE)
        dry = dry_run(request)
        done = node_remove(node=node, dry_run=dry, **self.by)
        told = {"dry_run": dry, "shortages": done.shortages, "effect": done.effect, "stranded": done.stranded}
        return Response(NodeRemovedAnswer(told).data)
