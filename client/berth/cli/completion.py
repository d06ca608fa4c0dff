"""Shell completion of names that only the server knows; none where it cannot be asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from berth.cli.settings import Session
from berth.client import Client
from berth.errors import BerthError

MOST = 100
PATIENCE_S = 2.0


def _completing(names: Callable[[Client], Iterator[str]]) -> Callable[[str], list[str]]:
    def complete(incomplete: str) -> list[str]:
        try:
            with Session().client(timeout_s=PATIENCE_S) as client:
                found = dict.fromkeys(islice(names(client), MOST))
        except BerthError:
            return []
        return [name for name in found if name.startswith(incomplete)]

    return complete


@_completing
def jobs(client: Client) -> Iterator[str]:
    """One's own jobs, newest first."""
    return (job.name for job in client.jobs.list(user=client.me().username, page=MOST))


@_completing
def nodes(client: Client) -> Iterator[str]:
    """The nodes."""
    return (node.name for node in client.nodes.list())


@_completing
def virtual_clusters(client: Client) -> Iterator[str]:
    """The virtual clusters."""
    return (vc.name for vc in client.virtual_clusters.list())
