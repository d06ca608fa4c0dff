"""Asks every operation of the scene, and makes of requests and answers what stands in the document."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import uuid
from collections.abc import Iterator
from typing import Any

from tests.examples.calls import Call, every_call
from tests.examples.scene import Scene
from tests.support.people.cast import HOST, Api

MOST_ROWS, MOST_LINES = 2, 8
ROWS = ("results", "samples")
BINARY = {"application/gzip", "application/octet-stream", "application/x-tar", "application/zip"}
"""What no document can show."""
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TOKEN = re.compile(r"berth_[A-Za-z0-9_-]{6,}")
TOLD = len("berth_") + 6
"""So much of a token is told in lists."""
_KEY = re.compile(r'"[A-Za-z0-9+/]{43}="')
_REDIS = re.compile(r'redis://[^"]*')
_SEALED = re.compile(r'"sealed": "[^"]*"')
_MESSAGE = re.compile(r"msg_[0-9a-f]{32}")

Examples = dict[str, dict[str, Any]]


def recorded(scene: Scene) -> Examples:
    """Of each operation: `request` and, by status, `answers`; each a list of media type, title and value."""
    apis = {name: Api(user) for name, user in scene.people.items()} | {"": Api()}
    names: dict[str, Any] = {name: job.pk for name, job in scene.jobs.items()}
    found: Examples = {}
    for call in every_call():
        path, body = call.path.format(**names), _filled(call.body, names)
        scene.clock.go(seconds=1)
        if call.silent:
            scene.silence(call.silent)
        answer = apis[call.by].call(call.method, path, body, kind=call.kind, **call.headers)
        assert answer.status_code < 300, (call, answer.content)
        media, value = _read(answer)
        for name, field in call.keep.items():
            names[name] = _kept(value, field)
        of = found.setdefault(call.operation, {"request": [], "answers": {}})
        if body is not None and call.kind not in BINARY:
            _add(of["request"], call, call.kind, body)
        if value is not None:
            _add(of["answers"].setdefault(str(answer.status_code), []), call, media, _cut(value))
    return _told(found, str(scene.root))


def _filled(body: Any, names: dict[str, Any]) -> Any:
    """The body with what was kept of earlier answers in the place of its name in braces."""
    if isinstance(body, dict):
        return {name: _filled(part, names) for name, part in body.items()}
    kept = body[1:-1] if isinstance(body, str) and body.startswith("{") and body.endswith("}") else ""
    return names.get(kept, body)


def _read(answer: Any) -> tuple[str, Any]:
    """Media type and content; None where it has none or is not to be shown."""
    media = answer.headers.get("Content-Type", "").partition(";")[0]
    content = answer.getvalue() if not answer.streaming else b"".join(answer)
    answer.close()
    if not content or media in BINARY:
        return media, None
    return media, json.loads(content) if media == "application/json" else content.decode()


def _kept(value: Any, field: str) -> Any:
    rows = value.get("results", value) if isinstance(value, dict) else value
    for part in filter(None, field.split(".")):
        rows = rows[int(part) if isinstance(rows, list) else part]
    return rows


def _add(to: list[dict[str, Any]], call: Call, media: str, value: Any) -> None:
    one = {"media": media, "title": call.title, "value": value}
    if one not in to:
        to.append(one)


def _cut(value: Any) -> Any:
    """Long lists and texts have their beginning only."""
    if isinstance(value, str):
        return "".join(value.splitlines(keepends=True)[:MOST_LINES])
    if isinstance(value, dict):
        return {name: part[:MOST_ROWS] if name in ROWS else part for name, part in value.items()}
    return value[:MOST_ROWS] if isinstance(value, list) else value


def _told(found: Examples, root: str) -> Examples:
    """The same with ids, secrets and places that every run has."""
    text = json.dumps(found)
    for number, one in enumerate(dict.fromkeys(_UUID.findall(text))):
        text = text.replace(one, str(uuid.uuid5(uuid.NAMESPACE_URL, str(number))))
    found_tokens = sorted(dict.fromkeys(_TOKEN.findall(text)), key=len, reverse=True)
    for number, beginning in enumerate(dict.fromkeys(one[:TOLD] for one in found_tokens)):
        for one in found_tokens:
            if one.startswith(beginning):
                text = text.replace(one, "berth_" + _digest(number)[: len(one) - len("berth_")])
    for number, one in enumerate(dict.fromkeys(_KEY.findall(text))):
        text = text.replace(one, json.dumps(base64.b64encode(hashlib.sha256(str(number).encode()).digest()).decode()))
    text = _REDIS.sub("rediss://node.gpu07:PASSWORD@redis.example.org:6380/0", text)
    text = _SEALED.sub('"sealed": "b3BlbmVkIGJ5IHRoZSBub2RlJ3Mga2V5IGFsb25l"', text)
    for number, one in enumerate(dict.fromkeys(_MESSAGE.findall(text))):
        text = text.replace(one, f"msg_{_digest(number)[:32]}")
    for here, there in {f"http://{HOST}": "https://berth.example.org", root: "/mnt/jobs", HOST: "10.1.0.11"}.items():
        text = text.replace(here, there)
    told: Examples = json.loads(text)
    return told


def _digest(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()


def leaves(value: Any, path: str = "") -> Iterator[str]:
    """Where there is what in an answer; rows of a list are alike."""
    if isinstance(value, dict):
        for name, part in value.items():
            yield from leaves(part, f"{path}.{name}")
    elif isinstance(value, list):
        for part in value:
            yield from leaves(part, f"{path}[]")
    else:
        yield path


def fields(examples: Examples) -> dict[str, dict[str, set[str]]]:
    """The names of what each operation answered."""
    return {
        name: {
            f"{status} {one['media']} {one['title']}": set(leaves(one["value"]))
            for status, answers in of["answers"].items()
            for one in answers
        }
        for name, of in examples.items()
    }
