"""REST: filters of the list of jobs that one comes back to."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlencode

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from portal.accounts.models import Scope
from portal.accounts.rest import ApiView
from portal.common.serializers import Answer, Body, Text
from portal.job_pages.forms.filters import JobFilterForm
from portal.jobs.models import VIEW_NAME_LENGTH
from portal.jobs.selectors.lists import saved_views
from portal.jobs.services.saved_views import view_forget, view_save


class SavedViewBody(Body):
    name = Text(max_length=VIEW_NAME_LENGTH)
    query = Text(
        max_length=2000, allow_blank=True, help_text="as it stands in the address of the page: `mine=on&state=failed`"
    )

    def validate_query(self, text: str) -> str:
        known = JobFilterForm.base_fields.keys() - {"before"}
        pairs = parse_qsl(text, keep_blank_values=True)
        if unknown := sorted({name for name, _ in pairs} - known):
            raise ValidationError(f"The page has no filter {', '.join(unknown)}; it has: {', '.join(sorted(known))}.")
        return urlencode(pairs)


class SavedViewAnswer(Answer):
    id = serializers.IntegerField()
    name = serializers.CharField()
    query = serializers.CharField(allow_blank=True)


class SavedViewsView(ApiView):
    """One's saved views."""

    scope = Scope.SUBMIT
    pagination_class = None
    problems = (409,)

    @extend_schema(operation_id="saved_view_list", responses=SavedViewAnswer(many=True))
    def get(self, request: Request) -> Response:
        """The views of the list of jobs that you saved, by name."""
        return self.listed(saved_views(user=self.user), SavedViewAnswer)

    @extend_schema(operation_id="saved_view_save", request=SavedViewBody, responses={200: SavedViewAnswer})
    def post(self, request: Request) -> Response:
        """Keeps filters under a name, in place of what you had under it. 409 for more than 50."""
        body: dict[str, Any] = self.body(SavedViewBody)
        return Response(SavedViewAnswer(view_save(user=self.user, **body)).data)


class SavedViewView(ApiView):
    """One saved view."""

    scope = Scope.SUBMIT

    @extend_schema(operation_id="saved_view_forget", responses={204: None})
    def delete(self, request: Request, view_id: int) -> Response:
        """Removes it."""
        view_forget(user=self.user, view_id=view_id)
        return Response(status=204)
