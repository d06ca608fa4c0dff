"""Files with an agent's settings: the server's own, which systemd gives to the agent, and the one with what the server
got when it joined. The environment overrides the first, and both override the second."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

SERVER_FILE = Path("/etc/berth-node.env")
SERVER_FILE_NAMED = "BERTH_NODE_SETTINGS"
"""The variable that names another file."""


def server_file(environ: Mapping[str, str]) -> Path:
    """The server's own settings file, whether or not it exists."""
    return Path(environ.get(SERVER_FILE_NAMED) or SERVER_FILE)


def server_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """What the server's own file adds to this environment, for commands run by hand, to which systemd gives nothing.
    Empty where there is none, or this user may not read it."""
    try:
        return beneath(settings_read(server_file(environ)), environ)
    except OSError:
        return {}


def settings_read(path: Path) -> dict[str, str]:
    """Parses lines NAME=value as systemd does: without comments, and without quotes around a value. Raises OSError."""
    lines = (line.strip() for line in path.read_text(encoding="utf-8", errors="replace").splitlines())
    found = (line.partition("=") for line in lines if "=" in line and not line.startswith(("#", ";")))
    return {name.strip(): _unquoted(value.strip()) for name, _, value in found}


def beneath(settings: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Settings that the environment sets neither as a value nor as a file (``…_FILE``)."""
    names = {name.removesuffix("_FILE") for name in environ}
    return {name: value for name, value in settings.items() if name.removesuffix("_FILE") not in names}


def is_closed(path: Path) -> bool:
    """Whether the file exists and this user may not read it."""
    try:
        path.open("rb").close()
    except PermissionError:
        return True
    except OSError:
        return False
    return False


def _unquoted(value: str) -> str:
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value
