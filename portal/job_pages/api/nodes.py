"""REST: a node that does not come back."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from portal.accounts.rest import ApiView
from portal.accounts.rights import Action
from portal.cluster.api.answers import NodeAnswer
from portal.cluster.api.nodes import node_answer
from portal.common.serializers import Body, Text
from portal.jobs.services.forgetting import node_give_up
from portal.teams.selectors.visible import node_with_right


class GiveUpBody(Body):
    reason = Text(max_length=500, help_text="why it is known not to come back")


class GiveUpView(ApiView):
    """A node that is silent."""

    problems = (409,)

    @extend_schema(operation_id="node_give_up", request=GiveUpBody, responses=NodeAnswer)
    def post(self, request: Request, name: str) -> Response:
        """Gives up a node that is silent for longer than `BERTH_NODE_LOST_AFTER` and that the portal waits for, since
        most others are silent, too: it is lost, and its tasks begin elsewhere. A reason is needed. What still runs
        there is stopped should it come back. 409 while it is not silent for that long, or is lost already. For
        administrators."""
        node = node_with_right(user=self.user, name=name, action=Action.NODE_SET_INTENT)
        node_give_up(node=node, **self.body(GiveUpBody), **self.by)
        return node_answer(user=self.user, name=name)
