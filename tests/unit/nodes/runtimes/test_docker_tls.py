"""An Engine at tcp:// is asked by certificates of both sides."""

from __future__ import annotations

import json
import shutil
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from nodes.agent.runtimes.docker.client import engine_client
from nodes.agent.runtimes.docker.faults import EngineUnavailable
from tests.support.services.scripted_engine import VERSION
from tests.support.services.tls import Authority, Files


class _Engine(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = json.dumps(VERSION).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        pass


@contextmanager
def engine(own: Files, authority: Path) -> Iterator[str]:
    """One that talks to nobody without a certificate of this authority's."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Engine)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority)
    context.load_cert_chain(own.certificate, own.key)
    context.verify_mode = ssl.CERT_REQUIRED
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"tcp://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def folder_of(path: Path, authority: Path, files: Files) -> Path:
    path.mkdir()
    for source, name in ((authority, "ca.pem"), (files.certificate, "cert.pem"), (files.key, "key.pem")):
        shutil.copy(source, path / name)
    return path


def test_both_sides_are_known_by_their_certificates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    ours, theirs = Authority(tmp_path / "ours"), Authority(tmp_path / "theirs")
    good = folder_of(tmp_path / "good", ours.ca, ours.sign("agent"))
    stranger = folder_of(tmp_path / "stranger", ours.ca, theirs.sign("agent"))
    deceived = folder_of(tmp_path / "deceived", theirs.ca, ours.sign("other"))
    with engine(ours.sign("engine"), ours.ca) as url:
        with closing(engine_client(url, timeout=5, tls=good)) as client:
            assert client.api_version == "1.51"
        for folder in (stranger, deceived):
            with pytest.raises(EngineUnavailable):
                engine_client(url, timeout=5, tls=folder)
