"""Settings of the agent: each a variable ``BERTH_NODE_<NAME>`` and a flag ``--<name>``; the flag wins.

``BERTH_NODE_<NAME>_FILE`` names a file that holds the value, for secret ones.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import re
import ssl
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from ipaddress import ip_address
from pathlib import Path, PurePosixPath
from typing import Any, cast

from nodes.agent.config.addresses import engine_address, portal_address
from nodes.agent.config.settings_files import beneath, settings_read
from nodes.protocol.addresses import (
    ENGINE_ANYHOW,
    ENGINE_CERTIFICATES,
    AddressInvalid,
    engine_guarded,
    redis_is_local,
    redis_secured,
)
from nodes.protocol.envelope import NodeKey, public_key_check

KEY_NAME = "node.key"
SETTINGS_NAME = "node.env"
"""What a server got when it joined, as lines NAME=value in the state folder."""
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?")
_RACK = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class OptionInvalid(Exception):
    """A setting cannot be used. ``name`` is the variable's, ``reason`` one sentence."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name}: {reason}")
        self.name = name
        self.reason = reason


class OptionMissing(OptionInvalid):
    """A setting without a default is not set."""


def _text(value: str) -> str:
    return value


def _name(value: str) -> str:
    if not _NAME.fullmatch(value):
        raise ValueError(f"{value!r} is no name: small letters, digits, dots and dashes, at most 63")
    return value


def _public_key(value: str) -> str:
    try:
        public_key_check(value)
    except ValueError as error:
        raise ValueError(
            f"{value!r} is no key of a portal (44 characters of base64): take what manage.py portal_key prints there, "
            "or join again (berth-node join URL TOKEN)"
        ) from error
    return value


def _choice(*allowed: str) -> Callable[[str], str]:
    def parse(value: str) -> str:
        if value not in allowed:
            raise ValueError(f"{value!r} is none of {', '.join(allowed)}")
        return value

    return parse


def _rack(value: str) -> str:
    if value and not _RACK.fullmatch(value):
        raise ValueError(f"{value!r} is no label: letters, digits, dots, dashes and underscores, at most 64")
    return value


def _gigabytes(value: str) -> int:
    if not (value.isdigit() and 1 <= int(value) <= 100_000):
        raise ValueError(f"{value!r} is no number of GB from 1 to 100000")
    return int(value)


def _park(value: str) -> int | None:
    return None if value == "" else _amount(value)


def _amount(value: str) -> int:
    return 0 if value == "0" else _gigabytes(value)


def _number(value: str, least: float, most: float, what: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not least <= number <= most:
        raise ValueError(f"{value!r} is no {what}")
    return number


def _percent(value: str) -> float:
    return _number(value, 0, 100, "percentage")


def _size(value: str) -> float:
    return _number(value, sys.float_info.min, 100_000, "number of GB up to 100000")


def _count(value: str) -> int:
    if not (value.isdigit() and int(value) <= 1000):
        raise ValueError(f"{value!r} is no number from 0 to 1000")
    return int(value)


def _ports(value: str) -> tuple[int, int]:
    first, _, last = value.partition("-")
    if not (first.isdigit() and last.isdigit() and 1024 <= int(first) <= int(last) <= 65535):
        raise ValueError(f"{value!r} is no port range such as 20000-29999")
    return int(first), int(last)


def _paths(value: str) -> tuple[str, ...]:
    return tuple(part for part in value.split(":") if part)


def _folder(value: str) -> str:
    path = PurePosixPath(value)
    if not path.is_absolute() or ".." in path.parts or len(path.parts) < 3:
        raise ValueError(f"{value!r} is no folder such as /mnt/berth")
    return str(path)


def _patterns(value: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in value.split(",") if part.strip())


def _certificates(value: str) -> Path | None:
    if not value:
        return None
    folder = Path(value)
    if missing := [name for name in ENGINE_CERTIFICATES if not (folder / name).is_file()]:
        raise ValueError(f"{folder} has no {' and no '.join(missing)}")
    return folder


def _anyhow(value: str) -> str:
    if value not in {"", ENGINE_ANYHOW}:
        raise ValueError(f"{value!r} is not {ENGINE_ANYHOW}")
    return value


def _web(value: str) -> str:
    return portal_address(value) if value else ""


def _address(value: str) -> str:
    return str(ip_address(value)) if value else ""


def _option(parse: Callable[[str], Any], default: str | None, help: str) -> Any:
    return field(metadata={"parse": parse, "default": default, "help": help})


def _seconds(least: float, most: float, default: str, help: str) -> Any:
    bounds = f"from {least:g} to {most:g}"
    return _option(
        lambda value: _number(value, least, most, f"number of seconds {bounds}"), default, f"{help}; {bounds}"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """All settings of an agent."""

    name: str = _option(_name, None, "the node's name, as the portal knows it")
    cluster: str = _option(_name, "berth", "the cluster's name")
    redis_url: str = _option(_text, None, "Redis of the portal; with a password better as variable or file")
    redis_ca: Path | None = _option(Path, "", "file of the authority (PEM) that signed the certificate of Redis")
    state_dir: Path = _option(Path, "/var/lib/berth-node", "folder of the agent's own state")
    key_file: Path | None = _option(Path, "", "the node's private key; default: node.key in the state folder")
    portal_url: str = _option(_web, "", "the portal's address; `berth-node check` compares clocks and versions there")
    portal_ca: Path | None = _option(Path, "", "file of the authority (PEM) that signed the portal's certificate")
    portal_public_key: str = _option(_public_key, None, "the portal's public key (base64)")
    runtime: str = _option(
        _choice("docker", "process"), "docker", "docker, or process (not isolated; only beside the portal's own Redis)"
    )
    docker_url: str = _option(engine_address, "unix:///var/run/docker.sock", "the local Docker Engine's socket")
    docker_tls: Path | None = _option(
        _certificates, "", f"folder with {', '.join(ENGINE_CERTIFICATES)}, by which an Engine at tcp:// is asked"
    )
    docker_without_tls: str = _option(
        _anyhow, "", f"{ENGINE_ANYHOW}: an Engine that answers whoever reaches it is used all the same"
    )
    gpus: str = _option(
        _text,
        "auto",
        "auto (the server's own; four simulated ones where it has none), nvml (the server's own alone), or "
        "declared ones such as simulated:4xA100-80GB",
    )
    simulated_cpus: int = _option(_count, "0", "beside simulated GPUs: cores that jobs are promised at least")
    simulated_memory_gb: int = _option(_amount, "0", "beside simulated GPUs: GB that jobs are promised at least")
    address: str = _option(_address, "", "the node's job address; default: of the default route")
    interface: str = _option(_text, "", "the node's job interface; default: of the default route")
    port_range: tuple[int, int] = _option(_ports, "20000-29999", "host ports that jobs may hold")
    rack: str = _option(_rack, "", "the rack's label: nodes with the same one stand close together")
    mount_roots: tuple[str, ...] = _option(_paths, "", "folders below which storages may lie, parted by colons")
    nfs_root: str = _option(_folder, "/mnt/berth", "folder below which the agent mounts NFS storages")
    nfs_servers: tuple[str, ...] = _option(_patterns, "", "NFS servers from which it may, as patterns parted by commas")
    policy_file: Path | None = _option(Path, "", "the node's policy (TOML)")
    home_dir: Path = _option(Path, "/var/tmp/berth-homes", "home folders of tasks of the process runtime")
    lease_still_s: float = _seconds(1, 3600, "60", "seconds a job folder's lease must stand still")
    # Less often a node would count as silent, or be given up, by what the portal waits for if not told otherwise.
    report_every_s: float = _seconds(0.1, 20, "5", "seconds between two reports when nothing changes")
    disk_clean: str = _option(
        _choice("off", "pulled", "all"),
        "pulled",
        "unused images that go for room: off (none), pulled (those that a registry has, too) or all",
    )
    disk_clean_percent: float = _option(_percent, "15", "percent of the disk for containers below which they go")
    disk_full_percent: float = _option(_percent, "5", "percent below which the node takes nothing new")
    disk_every_s: float = _seconds(0.1, 3600, "60", "seconds between two looks at the disk")
    listeners_every_s: float = _seconds(
        0, 86400, "600", "seconds between two looks at what answers here without authentication; 0: none"
    )
    layer_gb: float = _option(_size, "50", "GB that a container may write into its own layer")
    layer_grace_s: float = _seconds(0, 86400, "600", "seconds from the warning of it to the stop")
    foreign_after_s: float = _seconds(1, 86400, "30", "seconds after which a foreign process on a GPU is told")
    park_gb: int | None = _option(
        _park, "", "GB of memory for parked tasks; 0: none is parked; default: what no task was promised, at most half"
    )
    log_spool_gb: int = _option(_gigabytes, "20", "GB that logs not archived yet may take here, all together")
    code_cache_gb: int = _option(_gigabytes, "2", "GB of jobs' code that stay here for the next task")
    shells: int = _option(_count, "16", "shells in tasks that may be open here at once; 0: none")
    log_level: str = _option(
        _choice("debug", "info", "warning", "error"),
        "info",
        "what the agent's own log has: debug, info, warning or error",
    )

    @property
    def key_path(self) -> Path:
        return self.key_file or self.state_dir / KEY_NAME


def options_load(argv: Sequence[str], environ: Mapping[str, str]) -> Options:
    """Options from flags, variables, and what the server got when it joined, in this order. Raises OptionInvalid for
    the first bad one."""
    flags = _flags(argv)
    environ = {**beneath(_settings_file(state_dir_load(argv, environ) / SETTINGS_NAME), environ), **environ}
    values = {one.name: _value(one.name, one.metadata, flags[one.name], environ) for one in fields(Options)}
    for one in ("portal_ca", "redis_ca"):
        authority_check(f"BERTH_NODE_{one.upper()}", values[one])
    values["redis_url"] = _redis_secured(values["redis_url"], values["redis_ca"])
    options = Options(**values)
    if options.runtime == "process" and not redis_is_local(options.redis_url):
        raise OptionInvalid("BERTH_NODE_RUNTIME", "process isolates nothing and runs only beside its portal's Redis")
    if options.runtime == "docker" and not options.docker_without_tls:
        _engine_guarded(options)
    return options


def key_path_load(argv: Sequence[str], environ: Mapping[str, str]) -> Path:
    """Where the key lies, before other settings are known."""
    flags, known = _flags(argv), {one.name: one.metadata for one in fields(Options)}
    path: Path | None = _value("key_file", known["key_file"], flags["key_file"], environ)
    return path or state_dir_load(argv, environ) / KEY_NAME


def state_dir_load(argv: Sequence[str], environ: Mapping[str, str]) -> Path:
    """The agent's state folder, before other settings are known."""
    known = {one.name: one.metadata for one in fields(Options)}
    folder: Path = _value("state_dir", known["state_dir"], _flags(argv)["state_dir"], environ)
    return folder


def name_check(name: str) -> str:
    """Checks a node's name. Raises ValueError, one sentence."""
    return _name(name)


def _settings_file(path: Path) -> dict[str, str]:
    try:
        settings = settings_read(path)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise OptionInvalid("BERTH_NODE_STATE_DIR", f"{path} cannot be read: {error.strerror}") from error
    return {name: value for name, value in settings.items() if name.startswith("BERTH_NODE_")}


def key_load(path: Path) -> NodeKey:
    """The node's key from its file. Raises OptionInvalid."""
    try:
        return NodeKey.load(path.read_text().strip())
    except (OSError, ValueError) as error:
        raise OptionInvalid("BERTH_NODE_KEY_FILE", f"{path} holds no key; `python -m nodes key` makes one") from error


def key_make(path: Path) -> NodeKey:
    """The key of the file, made with mode 0600 where there is none. It has its name only once it is whole, and of two
    made at one moment one stays."""
    if path.exists():
        return key_load(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, fresh = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(NodeKey.generate().secret + "\n")
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(fresh, path)
    finally:
        os.unlink(fresh)
    return key_load(path)


def _flags(argv: Sequence[str]) -> dict[str, str | None]:
    parser = argparse.ArgumentParser(
        prog="berth-node",
        description="Berth's agent on a GPU server. Before it: `berth-node join URL TOKEN` lets this server join, "
        "`berth-node key` makes its key and prints the public half, `berth-node check` says what is wrong here.",
    )
    for one in fields(Options):
        help, default = one.metadata["help"], one.metadata["default"]
        text = help if not default or "default:" in help else f"{help} (default: {default})"
        parser.add_argument(f"--{one.name.replace('_', '-')}", help=text, metavar="VALUE")
    return vars(parser.parse_args(list(argv)))


def _value(name: str, meta: Mapping[str, Any], flag: str | None, environ: Mapping[str, str]) -> Any:
    variable = f"BERTH_NODE_{name.upper()}"
    text = flag if flag is not None else _from_environment(variable, environ)
    text = meta["default"] if text is None else text
    if text is None:
        raise OptionMissing(variable, f"is not set ({meta['help']})")
    if text == "" and meta["parse"] is Path:
        return None
    try:
        return cast(Callable[[str], Any], meta["parse"])(text)
    except ValueError as error:
        raise OptionInvalid(variable, str(error)) from error


def _from_environment(variable: str, environ: Mapping[str, str]) -> str | None:
    path = environ.get(f"{variable}_FILE")
    if variable in environ or path is None:
        return environ.get(variable)
    try:
        return Path(path).read_text().strip()
    except OSError as error:
        raise OptionInvalid(f"{variable}_FILE", f"{path} cannot be read: {error.strerror}") from error


def authority_check(name: str, path: Path | None) -> None:
    """Checks that the file that this variable names holds certificates. Raises OptionInvalid."""
    if path is None:
        return
    try:
        ssl.create_default_context(cafile=path)
    except (OSError, ssl.SSLError) as error:
        raise OptionInvalid(name, f"{path} is no file of certificates in PEM: {error}") from error


def _redis_secured(url: str, ca: Path | None) -> str:
    try:
        return redis_secured(url, str(ca or ""))
    except AddressInvalid as error:
        raise OptionInvalid("BERTH_NODE_REDIS_URL", str(error)) from error


def _engine_guarded(options: Options) -> None:
    try:
        engine_guarded(options.docker_url, has_certificates=options.docker_tls is not None)
    except AddressInvalid as error:
        raise OptionInvalid("BERTH_NODE_DOCKER_URL", str(error)) from error
