"""The `berth` command assembled from its parts."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from typing import Annotated

import typer

from berth.cli import account, cluster, exec, files, job_changes, jobs, logs, people, ssh, top, usage
from berth.cli.exit_codes import error_text
from berth.cli.settings import Session
from berth.errors import BerthError
from berth.version import __version__

app = typer.Typer(
    name="berth",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Berth: submit jobs to shared GPU servers, follow them, see why they wait.",
    epilog="The server and the token come from `berth login`, or from BERTH_URL and BERTH_TOKEN.",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"berth {__version__}")
        raise typer.Exit


@app.callback()
def options(
    ctx: typer.Context,
    url: Annotated[
        str | None, typer.Option("--url", help="The portal's address; else BERTH_URL, else as signed in.")
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Holds what every command reads."""
    ctx.obj = Session(url)


COMMANDS: dict[str, Callable[..., None]] = {
    "login": account.login,
    "logout": account.logout,
    "submit": jobs.submit,
    "check": jobs.check,
    "run": jobs.run,
    "ls": jobs.ls,
    "show": jobs.show_job,
    "logs": logs.logs,
    "exec": exec.exec_,
    "ssh": ssh.ssh,
    "files": files.files,
    "why": jobs.why,
    "stop": jobs.stop,
    "pause": jobs.pause,
    "park": jobs.park,
    "resume": jobs.resume,
    "move": jobs.move,
    "priority": job_changes.priority,
    "place": job_changes.place,
    "config": jobs.config,
    "queue": cluster.queue,
    "top": top.top,
    "vc": cluster.vcs,
    "usage": usage.usage,
    "alerts": people.alerts,
}
for name, command in COMMANDS.items():
    app.command(name)(command)
app.command("tag", context_settings=job_changes.TAGS)(job_changes.tag)
app.add_typer(cluster.nodes, name="node")
app.add_typer(account.tokens, name="token")
app.add_typer(people.users, name="user")


def main() -> None:
    """Runs the command; every failure is a sentence on standard error and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # text files, both
    try:
        try:
            app(prog_name="berth")
        finally:
            sys.stdout.flush()  # here, where it can still be said that there is no room for it
    except BerthError as error:
        text, code = error_text(error)
        print(text, file=sys.stderr)
        sys.exit(code)
    except BrokenPipeError:  # whoever read our output has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except OSError as error:  # what is printed into a file, or kept for a moment
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        disk = f"with {error.filename}" if error.filename else "that is printed to"
        print(f"berth: The disk {disk} is full. Make room there.", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter tries once more at its end
        sys.exit(74)
