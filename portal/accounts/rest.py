"""Base classes of the REST API's endpoints."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django_filters.rest_framework import DjangoFilterBackend
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.utils import OpenApiParameter
from rest_framework.exceptions import ValidationError
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from portal.accounts.audit import By
from portal.accounts.authentication import BearerToken
from portal.accounts.models import Scope, User
from portal.common.filters import GivenFilter, rows_chosen, unknown_refuse
from portal.common.serializers import FIELDS_PARAMETER, Answer, Body
from portal.common.versions import LENGTH, version_of

ETAG = re.compile(rf'"[0-9a-f]{{{LENGTH}}}"')
IF_MATCH = OpenApiParameter(
    "If-Match",
    {"type": "string", "pattern": f"^{ETAG.pattern}$"},
    OpenApiParameter.HEADER,
    description="The ETag of the thing that the change was made from; 409 when it is another by now.",
)


class ApiView(GenericAPIView[Any]):
    """Base view of the API. ``scope``: what a token needs for anything but reading; ``problems``: statuses of its own
    problem documents (those of every view are known to the OpenAPI document). For lists: ``orders``: columns to order
    by, besides the key; ``filterset_class``: the filters; ``parameters``: names of further parameters."""

    scope: Scope = Scope.ADMIN
    problems: tuple[int, ...] = ()
    filter_backends: Any = ()
    filterset_class: type[GivenFilter] | None = None
    orders: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    metadata_class = None  # OPTIONS tells nothing that the OpenAPI document does not
    request: Request

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.filterset_class:
            cls.filter_backends = (DjangoFilterBackend,)
            cls.queryset = cls.filterset_class.of._default_manager.none()  # for the OpenAPI document

    def initialize_request(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Request:
        if "HTTP_TRANSFER_ENCODING" in request.META:
            # A chunked body has no Content-Length, and Django REST framework would take it for empty.
            request.META.setdefault("CONTENT_LENGTH", "-1")
        return super().initialize_request(request, *args, **kwargs)

    @property
    def user(self) -> User:
        """The requesting user."""
        return cast(User, self.request.user)

    @property
    def by(self) -> By:
        """Who asks, for services."""
        return {"actor": self.user.username, "now": timezone.now()}

    def body(self, shape: type[Body]) -> dict[str, Any]:
        """The validated request body. Raises ValidationError with every problem."""
        body = shape(data=self.request.data)
        body.is_valid(raise_exception=True)
        return cast(dict[str, Any], body.validated_data)

    def changes(self, shape: type[Body]) -> dict[str, Any]:
        """The body of a change, which names at least one thing. Raises ValidationError."""
        if not (named := self.body(shape)):
            raise ValidationError("Name something that shall be different.")
        return named

    def seen(self) -> str | None:
        """The version in ``If-Match`` that the change is based on; None if it is absent or ``*``."""
        text = self.request.headers.get("If-Match")
        if text is None or text.strip() == "*":
            return None
        if not ETAG.fullmatch(text.strip()):
            raise ValidationError({"If-Match": "This is no ETag of such a thing."})
        return text.strip().strip('"')

    def page(
        self,
        rows: QuerySet[Any],
        shape: type[Answer],
        prepare: Callable[[list[Any]], Iterable[Any]] | None = None,
        order: Callable[[QuerySet[Any]], Sequence[Any] | QuerySet[Any, Any]] | None = None,
    ) -> Response:
        """The requested page of the rows, filtered. ``order`` applies an order of its own; ``prepare`` adds what a page
        needs, with a fixed number of queries."""
        unknown_refuse(self.request, self._parameters())
        asked = self.request.query_params.keys() & self.filterset_class.base_filters if self.filterset_class else ()
        filtered = self.filter_queryset(rows) if asked else rows
        found = cast(list[Any], self.paginate_queryset(order(filtered) if order else filtered))
        context = {**self.get_serializer_context(), "choose_fields": True}
        answer = shape(list(prepare(found)) if prepare else found, many=True, context=context)
        return self.get_paginated_response(answer.data)

    def listed(self, rows: Iterable[Any], shape: type[Answer]) -> Response:
        """A short, unpaginated list, filtered and ordered as the request asks."""
        answer = shape(list(rows), many=True, context=self.get_serializer_context())
        return Response(rows_chosen(list(answer.data), shape, self.request))

    def _parameters(self) -> Iterator[str]:
        """Names of the query parameters that the list accepts."""
        yield FIELDS_PARAMETER
        yield from self.parameters
        if self.paginator:
            yield from (one["name"] for one in self.paginator.get_schema_operation_parameters(self))
        if self.filterset_class:
            yield from self.filterset_class.base_filters


def versioned(answer: Answer, told: Mapping[str, Any], status: int = 200) -> Response:
    """An answer with the ETag of what the thing is ``told`` as."""
    return Response(answer.data, status=status, headers={"ETag": f'"{version_of(told)}"'})


class BearerTokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # its registering
    """The security scheme of bearer tokens in the OpenAPI document."""

    target_class = BearerToken
    name = "token"

    def get_security_definition(self, auto_schema: object) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer"}
