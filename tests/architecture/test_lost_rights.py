"""Whatever lasts is asked again whether it still may: docs/decisions/lost-rights.md."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
LASTING = {
    "StreamingHttpResponse", "FileResponse", "HttpResponseBase",
    "AsyncConsumer", "SyncConsumer", "AsyncHttpConsumer", "WebsocketConsumer", "JsonWebsocketConsumer",
    "AsyncWebsocketConsumer", "AsyncJsonWebsocketConsumer",
}  # fmt: skip
"""What Django streams with, and what Channels answers websockets with."""
ALLOWED = {
    ("portal/common/streaming.py", "StreamingHttpResponse"),
    ("portal/accounts/websockets.py", "AsyncWebsocketConsumer"),
}
"""Those that ask, from which all others are made."""


def used(tree: ast.AST) -> Iterator[str]:
    """Names of classes that are called or inherited from."""
    for node in ast.walk(tree):
        for one in node.bases if isinstance(node, ast.ClassDef) else [node.func] if isinstance(node, ast.Call) else []:
            if isinstance(one, ast.Name | ast.Attribute):
                yield one.id if isinstance(one, ast.Name) else one.attr


def test_every_streamed_answer_and_every_websocket_asks_again() -> None:
    found = {
        (str(path.relative_to(ROOT)), name)
        for path in (ROOT / "portal").rglob("*.py")
        for name in used(ast.parse(path.read_text()))
        if name in LASTING
    }
    assert found == ALLOWED
