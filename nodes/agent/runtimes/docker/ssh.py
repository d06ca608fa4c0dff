"""Start of a container's SSH server: a program of its image, as its user, never privileged."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import docker
import requests
import urllib3
from docker.errors import APIError

from nodes.agent.runtimes.base import RuntimeUnavailable
from nodes.agent.runtimes.docker.faults import engine_errors
from nodes.agent.runtimes.docker.shell import exec_end
from nodes.agent.runtimes.ssh import ANSWER_LIMIT, OPEN_WITHIN_S, ssh_answer, ssh_command
from nodes.protocol.messages import SshServer
from nodes.protocol.names import container_name


def ssh_start(client: docker.APIClient, attempt: str, port: int, keys: str) -> SshServer:
    """Starts the server. ``client`` is its own, and is closed here. Raises RuntimeUnavailable."""
    with contextlib.closing(client), engine_errors():
        try:
            made = client.exec_create(container_name(attempt), ssh_command(port, keys), stderr=False)
            try:
                return ssh_answer(_output(client.exec_start(made["Id"], stream=True)))
            finally:
                with contextlib.suppress(RuntimeUnavailable):
                    exec_end(client, made["Id"])
        except APIError as error:
            raise RuntimeUnavailable(f"the Engine does not start a program: {error.explanation}") from error


def _output(pieces: Iterator[bytes]) -> bytes:
    """The program's output to its end; of one that says too much or takes too long, what there is."""
    output, deadline = b"", time.monotonic() + OPEN_WITHIN_S
    with contextlib.suppress(requests.RequestException, urllib3.exceptions.HTTPError, TimeoutError):
        for piece in pieces:
            output += piece
            if len(output) > ANSWER_LIMIT or time.monotonic() > deadline:
                break
    return output[:ANSWER_LIMIT]
