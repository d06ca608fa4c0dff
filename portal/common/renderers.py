"""How answers of the API become bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from rest_framework.renderers import JSONRenderer
from rest_framework.utils.encoders import JSONEncoder


class Json(JSONRenderer):
    """JSON as Django REST framework writes it, by an encoder that takes a tenth of the time: an answer may have
    thousands of values. What it has no way to write (whole numbers beyond 64 bits) is left to the other."""

    def render(
        self, data: Any, accepted_media_type: str | None = None, renderer_context: Mapping[str, Any] | None = None
    ) -> bytes:
        if data is None or self.get_indent(accepted_media_type or "", dict(renderer_context or {})) is not None:
            return super().render(data, accepted_media_type, renderer_context)
        try:
            return _encoder.encode(data)
        except (OverflowError, TypeError, ValueError, msgspec.MsgspecError):
            return super().render(data, accepted_media_type, renderer_context)


_encoder = msgspec.json.Encoder(enc_hook=JSONEncoder().default, decimal_format="number")
