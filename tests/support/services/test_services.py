"""The test services themselves: what other tests rely on."""

import os
import subprocess
import sys
from pathlib import Path

from docker.types import DeviceRequest

from tests.support.run.waiting import wait_until
from tests.support.services.docker_engine import DockerEngine
from tests.support.services.postgres import PostgresServer
from tests.support.services.redis_server import RedisServer


def test_redis_keeps_its_data_over_a_restart_and_loses_it_when_restarted_empty(redis_server: RedisServer) -> None:
    redis_server.client().set("name", "value")
    redis_server.restart()
    assert redis_server.client().get("name") == b"value"
    redis_server.restart_empty()
    assert redis_server.client().get("name") is None


def test_postgres_keeps_committed_rows_when_it_is_killed(postgres: PostgresServer) -> None:
    import psycopg

    url = postgres.create_database("killed")
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS number")
    postgres.restart()
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT number FROM kept").fetchone() == (7,)
    postgres.drop_database("killed")


def test_containers_outlive_the_docker_daemon(docker_engine: DockerEngine) -> None:
    with docker_engine.client() as client:
        count = "i=0; while sleep 0.1; do i=$((i+1)); echo $i; done"
        container = client.containers.run("busybox:latest", ["sh", "-c", count], detach=True)
        docker_engine.restart()
        container.reload()
        assert container.status == "running"
        seen = len(container.logs().splitlines())
        wait_until(lambda: len(container.logs().splitlines()) > seen, "more lines after the restart")


def test_a_container_is_given_its_gpus_by_uuid(docker_engine: DockerEngine) -> None:
    request = DeviceRequest(driver="nvidia", device_ids=["GPU-1", "GPU-2"], capabilities=[["gpu"]])
    with docker_engine.client() as client:
        output = client.containers.run("busybox:latest", ["env"], device_requests=[request])
    assert b"NVIDIA_VISIBLE_DEVICES=GPU-1,GPU-2\n" in output


def test_the_python_image_runs_python_and_bash_as_any_user(docker_engine: DockerEngine, python_image: str) -> None:
    script = "python3 -c 'import ctypes, json, socket, ssl, sqlite3' && id -u"
    with docker_engine.client() as client:
        output = client.containers.run(python_image, ["bash", "-ec", script], user="4321:4321")
    assert output == b"4321\n"


RUN_THAT_IS_KILLED = """
import os, signal, subprocess
from tests.support.services.services import Services
services = Services()
services.redis.start()
outliving = subprocess.Popen(["sleep", "600"], env={"JOB": f"{services.folder}/job"}, start_new_session=True)
print(services.folder, services.redis.process.pid, outliving.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_nothing_of_a_killed_run_is_left_behind() -> None:
    env = {**os.environ, "PYTHONPATH": os.getcwd()}
    killed = subprocess.run([sys.executable, "-c", RUN_THAT_IS_KILLED], env=env, capture_output=True, text=True)
    folder, *pids = killed.stdout.split()
    wait_until(lambda: not Path(folder).exists(), "its folder to go")
    assert len(pids) == 2
    wait_until(lambda: not any(Path(f"/proc/{pid}/exe").exists() for pid in pids), "its processes to end")
