"""Settings of the command: options, then the environment, then the file that `berth login` writes."""

from __future__ import annotations

import os
import stat
from dataclasses import asdict, dataclass, field
from pathlib import Path

import typer
import yaml

from berth.cli.screen import say
from berth.client import TIMEOUT_S, Client
from berth.errors import Misused, NotSignedIn
from berth.server import Server

NAME = "config.yaml"


@dataclass
class Settings:
    """Contents of the file. A token is sent to its own server alone; ``expires``: when each ends (ISO 8601), where it
    does and that is known."""

    url: str = ""
    tokens: dict[str, str] = field(default_factory=dict)
    expires: dict[str, str] = field(default_factory=dict)


def path() -> Path:
    """`$XDG_CONFIG_HOME/berth/config.yaml`, or where the system keeps such files."""
    return Path(typer.get_app_dir("berth")) / NAME


def load() -> Settings:
    """The stored settings; empty where there is no file. Raises Misused."""
    file = path()
    try:
        text = file.read_text()
        open_to_others = file.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)
    except FileNotFoundError:
        return Settings()
    except (OSError, UnicodeDecodeError) as error:
        raise Misused(f"{file} cannot be read: {error}") from error
    if open_to_others:
        say(f"berth: {file} holds tokens and is open to others: run  chmod 600 {file}")
    try:
        stored = yaml.safe_load(text) or {}
        tokens, expires = (
            {str(k): str(v) for k, v in (stored.get(part) or {}).items()} for part in ("tokens", "expires")
        )
        return Settings(str(stored.get("url", "")), tokens, expires)
    except (yaml.YAMLError, AttributeError) as error:
        raise Misused(f"{file} is damaged: correct it, or remove it and run berth login") from error


def save(settings: Settings) -> Path:
    """Writes the file atomically, readable by its owner alone from the first moment. Raises Misused."""
    file = path()
    new = file.with_name(f".{NAME}.{os.getpid()}")
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
            yaml.safe_dump(asdict(settings), out, sort_keys=False)
        new.replace(file)
    except OSError as error:
        raise Misused(f"{file} cannot be written: {error.strerror}") from error
    return file


@dataclass(frozen=True)
class Session:
    """Options of this run of the command."""

    url: str | None = None

    def server(self) -> Server:
        """The server to ask, with its token. Raises Misused, NotSignedIn."""
        stored = load()
        url = self.url or os.environ.get("BERTH_URL") or stored.url
        if not url:
            raise Misused("no server is named: run berth login URL, or set BERTH_URL")
        server = Server(url)
        token = os.environ.get("BERTH_TOKEN") or stored.tokens.get(server.url)
        if not token:
            raise NotSignedIn(401, "Not signed in", f"There is no token for {server.url} here.")
        return Server(server.url, token.strip(), ca_file())

    def client(self, *, timeout_s: float = TIMEOUT_S) -> Client:
        """A client of that server."""
        server = self.server()
        return Client(server.url, server.token, ca_file=server.ca_file, timeout_s=timeout_s)


def ca_file() -> str | None:
    """The certificates that BERTH_CA_FILE names."""
    return os.environ.get("BERTH_CA_FILE") or None
