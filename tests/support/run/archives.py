"""Packed folders, good ones and such as nobody should send."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Mapping

HELLO = {"train.py": b"print('hello')\n", "lib/words.py": b"WORDS = 3\n"}


def packed(files: Mapping[str, bytes | tarfile.TarInfo], *, modes: Mapping[str, int] | None = None) -> bytes:
    """An archive of these files; a `TarInfo` goes in as it is, without content."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content in files.items():
            if isinstance(content, tarfile.TarInfo):
                archive.addfile(content)
                continue
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), (modes or {}).get(name, 0o644)
            archive.addfile(member, io.BytesIO(content))
    return gzip.compress(out.getvalue(), mtime=0)


def member(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    """A member without content: a link, a folder, a device."""
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.mode = kind, target, 0o755
    return made


def name_of(archive: bytes) -> str:
    """How a job file calls it."""
    return f"sha256:{hashlib.sha256(archive).hexdigest()}"
