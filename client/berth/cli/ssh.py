"""`berth ssh`: runs the machine's own ssh into a running task, with the task's host key known already."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from typing import Annotated

import typer

from berth.cli.exit_codes import INTERRUPTED
from berth.cli.jobs import JobName, session
from berth.cli.target import TaskName, job_id, newest_attempt
from berth.errors import Misused, ShellLost
from berth.model.jobs import Ssh


def ssh(
    ctx: typer.Context,
    job: JobName,
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[-- WORDS…]", help="For ssh, behind the host: a command.")
    ] = None,
    task: Annotated[
        str | None, typer.Option("--task", "-t", metavar="ROLE/INDEX", help="Into which task; else the first.")
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option("--option", "-o", metavar="NAME=VALUE", help="For ssh, as its own -o.")
    ] = None,
    shown: Annotated[bool, typer.Option("--print", help="Print the command line, and do not run it.")] = False,
) -> None:
    """Log in to a running task by SSH. Its job asks for that, and a key of yours is on your profile."""
    wanted = TaskName.of(task) if task is not None else None
    with session(ctx).client() as client:
        access = newest_attempt(client, job_id(client, job), wanted).ssh
    if access is None:
        raise ShellLost("It is not reached by SSH: it does not run now, or its job file asks for no `ssh` plug-in")
    if not access.command:
        raise ShellLost(access.message or "Its SSH server is not there yet; try again in a moment")
    options = [part for one in option or [] for part in ("-o", one)]
    if shown:
        print(shlex.join([*shlex.split(access.command), *options, *(words or [])]))
        return
    raise typer.Exit(_run(access, options, words or []))


def _run(access: Ssh, options: list[str], words: list[str]) -> int:
    program = shutil.which("ssh")
    if program is None:
        raise Misused("there is no ssh on this machine; `berth exec` needs none")
    with tempfile.TemporaryDirectory(prefix="berth-ssh-") as folder:
        known = os.path.join(folder, "known_hosts")
        with open(known, "w", encoding="ascii") as file:
            file.write(f"{access.alias} {access.host_key}\n")
        own = [f"HostKeyAlias={access.alias}", f'UserKnownHostsFile="{known}"', "StrictHostKeyChecking=yes"]
        checked = [part for one in own for part in ("-o", one)]
        command = [program, "-p", str(access.port), *checked, *options, "--", f"{access.user}@{access.host}", *words]
        try:
            return subprocess.run(command, check=False).returncode
        except KeyboardInterrupt:
            return INTERRUPTED
