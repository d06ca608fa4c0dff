"""``python -m nodes check``: finds what is wrong on this server, one line each, with its cure."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

from nodes.agent.check.finding import Finding, Verdict, failed, ok, warning
from nodes.agent.check.machine import key_finding, machine_findings
from nodes.agent.check.portal import portal_findings
from nodes.agent.config.options import SETTINGS_NAME, OptionInvalid, options_load, state_dir_load
from nodes.agent.config.settings_files import is_closed, server_file
from nodes.protocol.envelope import PortalKey

UNSET = {
    "BERTH_NODE_NAME": "unnamed",
    "BERTH_NODE_REDIS_URL": "redis://127.0.0.1:6379/0",
    "BERTH_NODE_PORTAL_URL": "",
    "BERTH_NODE_PORTAL_PUBLIC_KEY": PortalKey.generate().public,
}
"""Settings that a server has before it joins; nothing is asked by them, and the key is nobody's."""


def check(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """Prints the findings. Exit status: 1 where something failed, 0 otherwise, warnings included. Raises OptionInvalid
    for a setting of the server itself that cannot be used."""
    parser = argparse.ArgumentParser(
        prog="berth-node check",
        description="Says what is wrong on this server: a line for each thing, ok, warning or failed, with its cure. "
        "All settings of the agent may be given as flags.",
    )
    parser.add_argument("--json", action="store_true", help="as JSON: name, verdict, text, cure")
    flags, rest = parser.parse_known_args(list(argv))
    lines = list(findings(rest, environ))
    if flags.json:
        print(json.dumps([asdict(line) for line in lines], indent=2))
    else:
        for line in lines:
            print(_shown(line))
    return 1 if any(line.verdict is Verdict.FAILED for line in lines) else 0


def findings(argv: Sequence[str], environ: Mapping[str, str]) -> Iterator[Finding]:
    """All findings; those of the server alone also where it has not joined."""
    yield _files(argv, environ)
    try:
        options = options_load(argv, environ)
    except OptionInvalid as invalid:
        yield failed(
            "settings", str(invalid), "Join (berth-node join URL TOKEN), or correct it: docs/admin/settings.md."
        )
        yield from machine_findings(options_load(argv, {**environ, **UNSET}))
        return
    yield ok("settings", f"node {options.name} of cluster {options.cluster}")
    yield key_finding(options)
    yield from machine_findings(options)
    yield from portal_findings(options)


def _files(argv: Sequence[str], environ: Mapping[str, str]) -> Finding:
    """The files that settings are read from, beside the environment."""
    files = server_file(environ), state_dir_load(argv, environ) / SETTINGS_NAME
    closed = [str(path) for path in files if is_closed(path)]
    if closed:
        return warning("files", f"not read: {', '.join(closed)}", "Run it as root: sudo berth-node check")
    read = [str(path) for path in files if path.exists()]
    return ok("files", ", ".join(read) if read else f"neither {files[0]} nor {files[1]} is there")


def _shown(line: Finding) -> str:
    text = f"{line.verdict.value:<8} {line.name:<14} {line.text}"
    return f"{text}\n{'':<8} {'':<14} -> {line.cure}" if line.cure else text
