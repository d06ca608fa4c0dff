"""What every address of the REST API is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

from django.db.models import QuerySet
from django.http import HttpRequest
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from portal.accounts.authentication import BearerToken
from portal.accounts.models import Scope, User
from portal.common.serializers import Answer, Body


class ApiView(GenericAPIView[Any]):
    """A view of the API. ``scope`` is what a token needs for anything but reading, ``problems`` the statuses of its
    own problem documents (those that every view may answer are known to the OpenAPI document)."""

    scope: Scope = Scope.ADMIN
    problems: tuple[int, ...] = ()
    filter_backends: Any = ()
    metadata_class = None  # OPTIONS tells nothing that the OpenAPI document does not
    request: Request

    def initialize_request(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Request:
        if "HTTP_TRANSFER_ENCODING" in request.META:
            # A body sent in chunks names no length, and Django REST framework would take it for none.
            request.META.setdefault("CONTENT_LENGTH", "-1")
        return super().initialize_request(request, *args, **kwargs)

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        response.headers.setdefault("Cache-Control", "no-store")
        return super().finalize_response(request, response, *args, **kwargs)

    @property
    def user(self) -> User:
        """Who asks."""
        return cast(User, self.request.user)

    def body(self, shape: type[Body]) -> dict[str, Any]:
        """The request's body, checked. Raises ValidationError with every problem."""
        body = shape(data=self.request.data)
        body.is_valid(raise_exception=True)
        return cast(dict[str, Any], body.validated_data)

    def page(
        self,
        rows: QuerySet[Any],
        shape: type[Answer],
        prepare: Callable[[list[Any]], Iterable[Any]] | None = None,
        order: Callable[[QuerySet[Any]], list[Any]] | None = None,
    ) -> Response:
        """The asked-for page of the rows, after the view's filters. ``order`` turns the rows into a list, where the
        database does not know their order; ``prepare`` adds to a page what it needs, with a fixed number of queries."""
        filtered = self.filter_queryset(rows)
        found = cast(list[Any], self.paginate_queryset(order(filtered) if order else filtered))
        context = {**self.get_serializer_context(), "choose_fields": True}
        answer = shape(list(prepare(found)) if prepare else found, many=True, context=context)
        return self.get_paginated_response(answer.data)


class BearerTokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # its registering
    """How the OpenAPI document names it."""

    target_class = BearerToken
    name = "token"

    def get_security_definition(self, auto_schema: object) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer"}
