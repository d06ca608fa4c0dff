"""Berth's Python client: jobs, logs, queue and nodes over the portal's REST API.

from berth import Client

with Client("https://berth.example.org", token) as client:
    job = client.jobs.submit(open("train.yaml", "rb").read())
    print(client.jobs.wait(job.id).state)
"""

from berth.client import AsyncClient, Client
from berth.downloads import Held
from berth.errors import (
    BadAnswer,
    BerthError,
    Conflict,
    Fault,
    FolderTooLarge,
    JobUnfinished,
    LogIncomplete,
    Misused,
    NotAllowed,
    NotFound,
    NotSignedIn,
    NotValid,
    Problem,
    ServerFault,
    ShellLost,
    TlsFailed,
    TooMany,
    Unreachable,
)
from berth.logs import AsyncLogFollow, LogFollow
from berth.shell import AsyncShell, Shell
from berth.version import __version__

__all__ = [
    "AsyncClient",
    "AsyncLogFollow",
    "AsyncShell",
    "BadAnswer",
    "BerthError",
    "Client",
    "Conflict",
    "Fault",
    "FolderTooLarge",
    "Held",
    "JobUnfinished",
    "LogFollow",
    "LogIncomplete",
    "Misused",
    "NotAllowed",
    "NotFound",
    "NotSignedIn",
    "NotValid",
    "Problem",
    "ServerFault",
    "Shell",
    "ShellLost",
    "TlsFailed",
    "TooMany",
    "Unreachable",
    "__version__",
]
