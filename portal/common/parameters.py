"""Query parameters that several endpoints take."""

from __future__ import annotations

from drf_spectacular.utils import OpenApiParameter
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request


def truth_parameter(name: str, *, default: bool, description: str) -> OpenApiParameter:
    """The OpenAPI parameter for one that ``truth`` reads."""
    shape = {"type": "string", "enum": ["true", "false"], "default": str(default).lower()}
    return OpenApiParameter(name, shape, description=description)


def truth(request: Request, name: str, *, default: bool) -> bool:
    """Reads a ``true`` or ``false`` query parameter. Raises ValidationError for anything else."""
    text = request.query_params.get(name, str(default).lower())
    if text not in {"true", "false"}:
        raise ValidationError({name: "true or false."})
    return text == "true"


DRY_RUN = truth_parameter("dry_run", default=False, description="Only say what would be.")


def dry_run(request: Request) -> bool:
    """Whether the request asks for a dry run."""
    return truth(request, "dry_run", default=False)
