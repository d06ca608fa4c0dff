"""Pull of an image that ends at the Engine, too, when it is cancelled."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

import docker
import requests
import urllib3
from docker.auth import encode_header
from docker.errors import APIError, DockerException, create_api_error_from_http_exception
from docker.utils import parse_repository_tag

from nodes.agent.runtimes.base import Cancelled
from nodes.agent.runtimes.docker.faults import EngineUnavailable
from nodes.agent.runtimes.docker.logs import connection_shut_down

_POLL_S = 0.1
_ENDS = 20
"""Times, each ``_POLL_S``, that the end of a cancelled pull is waited for."""


class Pull:
    """A pull's events, read by a thread so that the reader can stop waiting. ``client`` is its own: ``close`` ends
    both.

    The Engine gives up a pull only when its connection is cut: a closed client leaves a connection that is being read
    open. It is cut also while the Engine has not begun to answer, which it does only when the registry has described
    the image.
    """

    def __init__(self, client: docker.APIClient, reference: str, auth: dict[str, str] | None) -> None:
        self._client = client
        repository, tag = repository_tag(reference)
        self._request = client.prepare_request(
            requests.Request(
                "POST",
                f"{client.base_url}/v{client.api_version}/images/create",
                params={"fromImage": repository, "tag": tag},
                headers={"X-Registry-Auth": encode_header(auth or {})},
            )
        )
        self._connection = _next_connection(client, self._request)
        self._closed = threading.Event()
        self._queue: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._thread = threading.Thread(target=self._read, name="pull", daemon=True)
        self._thread.start()

    def events(self, cancelled: Callable[[], bool]) -> Iterator[dict[str, Any]]:
        """Events until the end; a failure is the event ``error``. Raises ``Cancelled``."""
        while True:
            if cancelled():
                raise Cancelled
            try:
                event = self._queue.get(timeout=_POLL_S)
            except queue.Empty:
                continue
            if event is None:
                return
            yield event

    def close(self) -> None:
        """Called by the thread that reads the events. Cuts again until the pulling thread has seen it: it may be about
        to connect."""
        self._closed.set()
        for _ in range(_ENDS):
            if not self._thread.is_alive():
                break
            connection_shut_down(self._connection)
            self._thread.join(_POLL_S)
        self._client.close()

    def _read(self) -> None:
        try:
            if not self._closed.is_set():
                self._take()
        except APIError as error:
            self._queue.put({"error": error.explanation or str(error)})
        except (requests.RequestException, urllib3.exceptions.HTTPError, DockerException, OSError, ValueError) as error:
            why = str(error) if isinstance(error, EngineUnavailable) else type(error).__name__
            self._queue.put({"error": f"the Engine broke the pull off ({why})"})
        self._queue.put(None)

    def _take(self) -> None:
        with self._client.send(self._request, stream=True, timeout=None) as response:
            try:
                response.raise_for_status()
            except requests.HTTPError as error:
                create_api_error_from_http_exception(error)
            for line in response.iter_lines():
                if line:
                    self._queue.put(json.loads(line))


def repository_tag(reference: str) -> tuple[str, str]:
    repository, tag = parse_repository_tag(reference)
    return repository, tag or "latest"


def _next_connection(client: docker.APIClient, request: requests.PreparedRequest) -> urllib3.connection.HTTPConnection:
    """The connection by which this client is going to send the request: the one put back last."""
    adapter = client.get_adapter(str(request.url))
    assert isinstance(adapter, requests.adapters.HTTPAdapter)
    pool: Any = adapter.get_connection_with_tls_context(request, client.verify, cert=client.cert)
    connection: urllib3.connection.HTTPConnection = pool._get_conn()
    pool._put_conn(connection)
    return connection
