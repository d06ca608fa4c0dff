"""Grammar of image names as `docker pull` reads them: that of distribution's package `reference`."""

from __future__ import annotations

import re
from typing import Final

MAX_NAME: Final = 255
"""Characters of a name without its tag and digest."""

_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_HOST = rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[0-9A-Fa-f:]+\])"
_SERVER = rf"(?:localhost|{_LABEL}(?:\.{_LABEL})+|{_HOST}:[0-9]{{1,5}})"
"""Docker also takes an uppercase first part for a server; here a server has a dot or a port, so that no Docker Hub
login is sent elsewhere."""
_PART = r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*"
_DIGEST = r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9A-Fa-f]{32,}"
_NAME = re.compile(
    rf"(?P<name>(?:{_SERVER}/)?{_PART}(?:/{_PART})*)(?P<tag>:[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}})?(?:@{_DIGEST})?"
)


def fault(uri: str) -> str | None:
    """What is wrong with an image's name, or None."""
    found = _NAME.fullmatch(uri)
    if found is None:
        if (lower := _lower(uri)) != uri and _NAME.fullmatch(lower):
            return f"Docker takes image names in lower case only; did you mean {lower[:300]}?"
        return f'{uri[:80]} names no image, as "pytorch/pytorch:2.5.0" or "registry.lab:5000/team/image:1" do'
    if len(found["name"]) > MAX_NAME:
        return f"the image's name must be at most {MAX_NAME} characters, not {len(found['name'])}"
    return None


def _lower(uri: str) -> str:
    """The name in lower case, tag and digest unchanged."""
    named, at, digest = uri.partition("@")
    folder, slash, last = named.rpartition("/")
    last, colon, tag = last.partition(":")
    return f"{folder.lower()}{slash}{last.lower()}{colon}{tag}{at}{digest}"
