"""Files in which an agent's settings stand: the server's own, which systemd gives to the agent, and the one with what
the server was told when it joined. The environment is more than the first, and both are more than the second."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

SERVER_FILE = Path("/etc/berth-node.env")
SERVER_FILE_NAMED = "BERTH_NODE_SETTINGS"
"""The variable that names another one."""


def server_file(environ: Mapping[str, str]) -> Path:
    """The server's own settings, whether or not there are any."""
    return Path(environ.get(SERVER_FILE_NAMED) or SERVER_FILE)


def server_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """What the server's own file adds to this environment: for commands that somebody runs by hand, to whom systemd
    gives nothing. Empty where there is none, or it is not for this user to read."""
    try:
        return beneath(settings_read(server_file(environ)), environ)
    except OSError:
        return {}


def settings_read(path: Path) -> dict[str, str]:
    """Lines NAME=value, as systemd takes them: without remarks, and without quotes around a value. Raises OSError."""
    lines = (line.strip() for line in path.read_text(encoding="utf-8", errors="replace").splitlines())
    found = (line.partition("=") for line in lines if "=" in line and not line.startswith(("#", ";")))
    return {name.strip(): _unquoted(value.strip()) for name, _, value in found}


def beneath(settings: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Those that the environment says neither as a value nor as a file (``…_FILE``)."""
    said = {name.removesuffix("_FILE") for name in environ}
    return {name: value for name, value in settings.items() if name.removesuffix("_FILE") not in said}


def is_closed(path: Path) -> bool:
    """Whether the file is there, and not for this user to read."""
    try:
        path.open("rb").close()
    except PermissionError:
        return True
    except OSError:
        return False
    return False


def _unquoted(value: str) -> str:
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value
