"""An agent in a container whose Engine makes its socket anew."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

from nodes.agent.runtimes.docker.socket import socket_is_gone, socket_watch


def test_only_a_socket_without_any_name_left_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "docker.sock"
    with socket.socket(socket.AF_UNIX) as engine:
        engine.bind(str(path))
        assert not socket_is_gone(str(path))
        path.unlink()
        assert not socket_is_gone(str(path)), "it may come back"


def test_the_agent_is_told_once_when_what_is_bound_is_gone(tmp_path: Path) -> None:
    """A file that is open and has no name is what the bound one looks like from inside."""
    path, told = tmp_path / "docker.sock", threading.Event()
    with path.open("w") as bound:
        thread = socket_watch(f"unix:///proc/self/fd/{bound.fileno()}", gone=told.set, every_s=0.02)
        assert not told.wait(0.1)
        path.unlink()
        assert told.wait(10)
        thread.join(10)
        assert not thread.is_alive()
