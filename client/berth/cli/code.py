"""Upload of a folder of code, with a progress bar."""

from __future__ import annotations

import sys

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from berth.cli.screen import console, say
from berth.client import Client


def upload(client: Client, folder: str) -> str:
    """Packs and uploads the folder; returns the id by which a job file names it."""
    columns = (TextColumn("uploading the code"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console(errors=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("", total=None, visible=False)
        code = client.code.upload(
            folder, told=lambda sent, size: bar.update(task, completed=sent, total=size, visible=True)
        )
    say(f"- code {code.id[:19]}: {code.entries:,} files and folders, {code.size / 1024:,.1f} kB packed")
    return code.id
