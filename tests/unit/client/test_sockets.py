"""A server that goes silent over TLS: the connection is given up when its time is over, and not waited for."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from websockets.sync.client import connect

from berth.sockets import Closable
from tests.support.services.tls import Authority


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def silent(authority: Authority) -> Iterator[str]:
    """The address of a server that greets by TLS, and then says nothing to whatever it is asked."""
    files = authority.sign("silent")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError), context.wrap_socket(listener.accept()[0], server_side=True) as asked:
                asked.recv(65536)
                ended.wait(60)

        server = threading.Thread(target=serve)
        server.start()
        yield f"wss://127.0.0.1:{listener.getsockname()[1]}/"
        ended.set()
        server.join(10)


def test_what_a_silent_server_was_asked_is_given_up_in_time(authority: Authority, silent: str) -> None:
    said: list[Exception] = []

    def ask() -> None:
        context = ssl.create_default_context(cafile=authority.ca)
        try:
            with connect(silent, ssl=context, proxy=None, open_timeout=0.5, create_connection=Closable):
                pass
        except Exception as error:
            said.append(error)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(20)
    assert [type(error) for error in said] == [TimeoutError]
