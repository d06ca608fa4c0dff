"""Request bodies, read up to a limit whatever their Content-Length says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import IO, Any

from django.conf import settings
from rest_framework.exceptions import ParseError
from rest_framework.parsers import BaseParser

from portal.common.errors import TooLarge


def read_limited(stream: IO[bytes], limit: int) -> bytes:
    """Reads the whole body. Raises TooLarge beyond ``limit`` bytes, having read only one more."""
    body = stream.read(limit + 1)
    if len(body) > limit:
        raise TooLarge(limit)
    return body


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


class StrictJSONParser(BaseParser):
    """Parses one JSON value in UTF-8; refuses NaN and infinities, which are not JSON."""

    media_type = "application/json"

    def parse(
        self,
        stream: IO[bytes],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        body = read_limited(stream, settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
        try:
            return json.loads(body.decode("utf-8"), parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise ParseError(f"The body is not valid JSON: {str(error)[:200]}.") from None
