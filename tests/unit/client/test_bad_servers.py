"""A server whose certificate or address is wrong, and a disk that is full: one sentence with the cure."""

from __future__ import annotations

import re
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from berth import BerthError, Client
from berth.cli.exit_codes import error_text
from tests.support.people.shell import BERTH, Shell
from tests.support.services.tls import DAY, Authority, Files


@contextmanager
def serving(files: Files | None) -> Iterator[int]:
    """A server that shows this certificate and says nothing else; without one it speaks no TLS. Its port."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    if files is not None:
        context.load_cert_chain(files.certificate, files.key)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_serve, args=(listener, context if files else None), daemon=True).start()
        yield listener.getsockname()[1]


def _serve(listener: socket.socket, context: ssl.SSLContext | None) -> None:
    with suppress(OSError):
        while True:
            connection, _ = listener.accept()
            with ExitStack() as ended:
                ended.enter_context(connection)
                ended.enter_context(suppress(OSError))
                if context is None:
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                else:
                    context.wrap_socket(connection, server_side=True).close()


def said(url: str, ca: Path) -> str:
    """What `berth` prints, and ends with 69."""
    with Client(url, "token", ca_file=str(ca), trust_env=False) as berth, pytest.raises(BerthError) as caught:
        berth.me()
    text, code = error_text(caught.value)
    assert (code, text.count("\n")) == (69, 0), text
    return re.sub(r"it says [0-9: -]+ UTC", "it says NOW", text)


def test_a_certificate_that_is_over_early_or_anothers_is_told_with_its_cure(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    for files, sentence in (
        (
            authority.sign("over", begins=-2 * DAY, ends=-DAY),
            "its certificate has expired. Tell an administrator to renew it, unless this computer's clock is wrong: it "
            "says NOW.",
        ),
        (
            authority.sign("early", begins=DAY, ends=2 * DAY),
            "its certificate is not valid yet. Set this computer's clock right: it says NOW.",
        ),
        (
            authority.sign("other", host="192.0.2.1"),
            "its certificate is for another name (IP address mismatch, certificate is not valid for '127.0.0.1'). "
            "Write the address with the name that the certificate has.",
        ),
        (
            Authority(tmp_path, "stranger").sign("unknown"),
            "TLS failed (unable to get local issuer certificate). If its certificate comes from an authority of your "
            "own, name that by BERTH_CA_FILE.",
        ),
    ):
        with serving(files) as port:
            url = f"https://127.0.0.1:{port}"
            assert said(url, authority.ca) == f"berth: {url} cannot be reached: {sentence}"


def test_a_port_without_tls_a_closed_one_and_an_unknown_name(tmp_path: Path) -> None:
    ca = Authority(tmp_path).ca
    with serving(None) as port:
        words = said(f"https://127.0.0.1:{port}", ca)
        assert "it does not speak TLS there" in words
        assert words.endswith("Is it the port of HTTPS? An address without TLS begins with http://.")
    for url, why in (
        ("http://127.0.0.1:1", "Connection refused"),
        ("http://nowhere.invalid", "Name or service not known"),
    ):
        assert said(url, ca) == f"berth: {url} cannot be reached: {why}. Is the address right and the server up?"


def test_a_disk_without_room_for_what_is_printed_is_told(tmp_path: Path) -> None:
    environ = Shell(tmp_path).environment()
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*BERTH, "--version"], stdout=full, stderr=subprocess.PIPE, env=environ, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (74, "berth: The disk that is printed to is full. Make room there.\n")
