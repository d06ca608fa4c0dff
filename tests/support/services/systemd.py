"""A GPU server with an agent under systemd, which is not there where tests run in a container: what of `systemctl` the
pages use, for the agent's own unit."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support.people.reader import Reader

SYSTEMCTL = """
case "$*" in
  daemon-reload) exit ;;
  "enable berth-node") exit ;;
  "enable --now berth-node" | "restart berth-node") ;;
  *) echo "systemctl $*: not known here" >&2; exit 1 ;;
esac
of() {{
  sed -n "s,^$1=,,p" {units}/berth-node.service | sed 's,/opt/berth,{opt},g; s,/etc/berth-node.env,{settings},g'
}}
[ -e {units}/pid ] && kill "$(cat {units}/pid)" && tail --pid="$(cat {units}/pid)" -f /dev/null
cd "$(of WorkingDirectory)" || exit 1
for name in $(env | sed -n 's,^\\(BERTH_[A-Z_]*\\)=.*,\\1,p'); do unset "$name"; done
file=$(of EnvironmentFile)
[ ! -e "${{file#-}}" ] || while IFS= read -r line; do export "${{line?}}"; done <"${{file#-}}"
setsid $(of ExecStart) >>{units}/log 2>&1 &
echo $! >{units}/pid
"""


@contextmanager
def a_server(reader: Reader, *, opt: Path, name: str = "joined") -> Iterator[Path]:
    """The folder of its units, for a reader whose server has this name and the agent's files in `opt`; tasks are plain
    processes there, on two simulated GPUs. The agent has these settings from the server's own file, as the
    unit says, and nothing of the reader's environment; the reader's `berth-node` finds that file by itself."""
    units, file = reader.folder / "units", reader.folder / "berth-node.env"
    units.mkdir()
    reader.program("systemctl", SYSTEMCTL.format(units=units, opt=opt, settings=file))
    settings = {
        "NAME": name, "STATE_DIR": str(reader.folder / "state"), "RUNTIME": "process", "ADDRESS": "127.0.0.1",
        "INTERFACE": "lo", "GPUS": "simulated:2xA100-80GB", "DISK_CLEAN": "off", "DISK_FULL_PERCENT": "0",
    }  # fmt: skip
    file.write_text("".join(f"BERTH_NODE_{name}={value}\n" for name, value in settings.items()))
    reader.environment["BERTH_NODE_SETTINGS"] = str(file)
    try:
        yield units
    finally:
        with suppress(FileNotFoundError, ProcessLookupError):
            os.kill(int((units / "pid").read_text()), signal.SIGKILL)
