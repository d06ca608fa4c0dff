"""The embedded stack as `make demo` starts it: what somebody sees at the terminal, and what stands in the way."""

from __future__ import annotations

import os
import re
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import psutil
import pytest

from portal.embedded.options import DATA, SIMULATED, Options, jobs_let_through
from tests.support.run.waiting import wait_until
from tests.support.services.services import Services

ROOT = Path(__file__).resolve().parents[3]
PASSED_ON = ("PATH", "HOME", "LANG")


def environment(data: Path, port: int) -> dict[str, str]:
    kept = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    return kept | {"BERTH_DATA_DIR": str(data), "PORT": str(port), "DOCKER_HOST": "unix:///nonexistent.sock"}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def demo(data: Path, port: int, out: Path, *arguments: str, **more: str) -> Iterator[subprocess.Popen[bytes]]:
    with out.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "portal.embedded", *arguments], cwd=ROOT, env=environment(data, port) | more,
            stdout=file, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                process.wait(timeout=60)


@pytest.fixture
def folder(services: Services) -> Path:
    """One to which jobs get through, as other users."""
    return services.new_folder("demo")


def test_the_demo_shows_its_job_and_finds_ports_and_data_again_after_its_first_process_was_killed(folder: Path) -> None:
    """The second start is of other settings, each of which reaches whom it is for."""
    port, data, first, second = free_port(), folder / "data", folder / "first", folder / "second"
    with demo(data, port, first) as process:
        wait_until(lambda: "stays up" in first.read_text(), "the end of the sample job", deadline_s=150)
        with urlopen(f"http://127.0.0.1:{port}/healthz") as answer:
            assert answer.status == 200
        others = psutil.Process(process.pid).children(recursive=True)
        assert len(others) > 6, others
        process.kill()
        process.wait()
    _, left = psutil.wait_procs(others, timeout=60)
    assert left == []
    lines = first.read_text().splitlines()
    for worker in (0, 1):
        steps = [line for line in lines if f"[worker/{worker}] step" in line]
        assert [line.split("step ")[1] for line in steps] == [f"{step} of 5" for step in range(1, 6)]
    assert "job admin/hello#1 succeeded" in lines
    assert any("4 simulated GPUs" in line for line in lines)
    assert any("NOT isolated" in line for line in lines)
    few = (os.cpu_count() or 1) < int(SIMULATED["BERTH_NODE_SIMULATED_CPUS"])
    assert any(line.startswith("Jobs are promised 32 CPU and ") for line in lines) is few
    assert len([line for line in lines if re.search(r"the password \S+ \(shown this once\)", line)]) == 1
    (tunnel,) = (line for line in lines if line.startswith("From another machine: "))
    assert tunnel == f"From another machine: ssh -L {port}:127.0.0.1:{port} {socket.gethostname()}"

    more = {"BERTH_CLUSTER": "lab", "BERTH_URL": "https://gpu.example.org", "BERTH_NODE_NAME": "laptop"}
    with demo(data, port, second, "--no-job", **more, BERTH_NODE_GPUS="simulated:2xA100-40GB") as process:
        wait_until(
            lambda: "stays up at https://gpu.example.org" in second.read_text(), "the next start", deadline_s=150
        )
        password_set(second.read_text())
    assert process.returncode == 0
    again = second.read_text()
    assert "Node laptop: 2 simulated GPUs (A100-40GB)." in again
    assert "is used by something else" not in again
    assert "shown this once" not in again


def password_set(told: str) -> None:
    """Types the command that a later start names, as it stands there, in a terminal that knows nothing of the demo."""
    found = re.search(r"^The administrator is admin; a new password: (.+)$", told, re.MULTILINE)
    assert found, told
    plain, typed = {name: os.environ[name] for name in PASSED_ON if name in os.environ}, "correct horse battery\n" * 2
    done = subprocess.run(
        ["sh", "-c", found[1]], cwd=ROOT, env=plain, input=typed, capture_output=True, text=True, check=False,
        start_new_session=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "The password of admin is changed" in done.stderr


@pytest.mark.parametrize(
    ("bind", "url", "way"),
    [
        ("127.0.0.1", "http://127.0.0.1:80", "80:127.0.0.1:80"),
        ("localhost", "http://localhost:80", "80:localhost:80"),
        ("::1", "http://[::1]:80", "80:[::1]:80"),
        ("0.0.0.0", "http://127.0.0.1:80", ""),
        ("::", "http://127.0.0.1:80", ""),
        ("192.0.2.7", "http://192.0.2.7:80", ""),
        ("2001:db8::7", "http://[2001:db8::7]:80", ""),
        ("gpu.example.org", "http://gpu.example.org:80", ""),
    ],
)
def test_the_way_by_ssh_is_told_where_other_machines_get_no_answer(bind: str, url: str, way: str) -> None:
    options = Options(bind=bind, port=80, data=DATA, docker_url=None, gpus="demo")
    assert options.url == url
    assert options.tunnel == (f"ssh -L {way} {socket.gethostname()}" if way else "")
    assert options.new_password == ".venv/bin/python manage.py reset_password --ask admin"


def refusal(data: Path, port: int, **more: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "portal.embedded"], cwd=ROOT, env=environment(data, port) | more,
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode != 0
    return (done.stdout + done.stderr).strip()


def test_a_busy_port_gets_one_line_that_names_it_and_another(tmp_path: Path) -> None:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        line = refusal(tmp_path, port)
    assert "\n" not in line
    assert f"127.0.0.1:{port} cannot be used" in line
    assert f"PORT={port + 1}" in line


@pytest.mark.parametrize("engine", ["tcp://127.0.0.1:1", "http://127.0.0.1:1", "ssh://root@127.0.0.1"])
def test_an_engine_over_the_network_without_certificates_gets_one_line(tmp_path: Path, engine: str) -> None:
    told = environment(tmp_path, free_port()) | {"DOCKER_HOST": engine}
    done = subprocess.run(
        [sys.executable, "-m", "portal.embedded"], cwd=ROOT, env=told, capture_output=True, text=True, check=False,
        timeout=60,
    )  # fmt: skip
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"DOCKER_HOST={engine} leads to the Docker Engine over the network without mutual TLS")
    assert "DOCKER_TLS_VERIFY=1" in line
    assert "BERTH_NODE_DOCKER_WITHOUT_TLS=i_accept_that_every_job_can_become_root" in line
    assert not (tmp_path / "redis").exists(), "something was started"


@pytest.mark.parametrize(
    ("name", "url", "told"),
    [
        ("BERTH_REDIS_URL", "redis://127.0.0.1:1/0", "Nothing listens where Redis at 127.0.0.1:1 should"),
        (
            "BERTH_DATABASE_URL",
            "postgresql://b@127.0.0.1:1/b",
            "Nothing listens where PostgreSQL at 127.0.0.1:1 should",
        ),
    ],
)
def test_a_service_that_the_environment_names_and_that_is_not_there_gets_one_line(
    folder: Path, name: str, url: str, told: str
) -> None:
    last = refusal(folder, free_port(), **{name: url}).splitlines()[-1]
    assert last.startswith(told), last
    assert name in last


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"BERTH_NODE_RUNTIME": "docker"}, "at unix:///nonexistent.sock, and BERTH_NODE_RUNTIME=docker asks for one"),
        ({"BERTH_NODE_DOCKER_URL": "unix:///no.sock"}, "at unix:///no.sock, and BERTH_NODE_DOCKER_URL asks for one"),
        ({"BERTH_NODE_RUNTIME": "podman"}, "BERTH_NODE_RUNTIME='podman' is none of docker, process."),
    ],
)
def test_an_engine_that_the_environment_asks_for_and_that_does_not_answer_gets_one_line(
    tmp_path: Path, more: dict[str, str], told: str
) -> None:
    line = refusal(tmp_path, free_port(), **more)
    assert "\n" not in line
    assert told in line


def test_a_folder_that_cannot_be_written_gets_one_line_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    line = refusal(tmp_path / "file" / "data", free_port())
    assert "\n" not in line
    assert "cannot be written" in line
    assert "BERTH_DATA_DIR=" in line


def test_jobs_get_through_to_their_folders_and_into_nothing_else_and_a_closed_way_is_told(tmp_path: Path) -> None:
    """As root's agent runs them, as other users."""
    data = tmp_path / "data"
    (data / "jobs").mkdir(parents=True)
    (data / "jobs").chmod(0o750)
    data.chmod(0o750)
    database = data / "berth.sqlite3"
    database.touch(0o644)
    tmp_path.chmod(0o700)
    said = jobs_let_through(data, data / "jobs")
    if os.geteuid() != 0:
        assert said == ""
        return
    assert [stat.S_IMODE(path.stat().st_mode) for path in (data, database, data / "jobs")] == [0o711, 0o640, 0o755]
    assert f"to whom {tmp_path} is closed" in said
    assert "BERTH_DATA_DIR=" in said


@pytest.mark.parametrize("port", ["0", "70000", "http"])
def test_a_port_that_is_none_gets_one_line(tmp_path: Path, port: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "portal.embedded"], cwd=ROOT, env=environment(tmp_path, 1) | {"PORT": port},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.stderr.strip() == f"PORT={port!r}: must be a number from 1 to 65535."
