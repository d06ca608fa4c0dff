"""PostgreSQL, a real Docker Engine, two agents as two nodes: everything as on a cluster, but for the GPUs."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.flows.journeys import Journeys
from tests.support.cluster.stack import Stack
from tests.support.images import images
from tests.support.images.git_image import git_image
from tests.support.images.ssh_image import ssh_image
from tests.support.people.documents import commands
from tests.support.people.person import Person, alice, job_file
from tests.support.people.reader import reader_of
from tests.support.run.waiting import wait_until
from tests.support.services.docker_engine import DockerEngine
from tests.support.services.processes import free_port

RENDEZVOUS = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor([2 ** dist.get_rank()])
dist.all_reduce(total)
os.write(1, f"rank {dist.get_rank()} of {dist.get_world_size()}: {total.item()}\\n".encode())
dist.destroy_process_group()
"""
WHOAMI = ("id -u", "id -g", 'touch "$BERTH_JOB_DIR/mine" && echo written', 'echo "home $HOME of $USER"', "pwd")

PLUGINS = "com.microsoft.pai.runtimeplugin"
ON_DATA: dict[str, Any] = {"extras": {"storages": [{"name": "data", "mountPath": "/data"}]}}


def mounted(folder: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=755", "data", folder], check=True)


@contextmanager
def standing_still(stack: Stack) -> Iterator[None]:
    """No agent does anything meanwhile, and the portal does not know."""
    agents = [stack.processes[agent.name] for agent in stack.agents]
    for agent in agents:
        agent.suspend()
    yield
    for agent in agents:
        agent.resume()


@pytest.fixture(scope="module")
def user(stack: Stack) -> Person:
    return alice(stack)


@pytest.fixture
def data(stack: Stack, user: Person) -> Iterator[Path]:
    """A storage that is a mount, below the folder that both servers name."""
    folder = stack.storages / "data"
    folder.mkdir()
    mounted(folder)
    about = {"name": "data", "kind": "path", "root": str(folder), "must_be_mount": True}
    about |= {"virtual_clusters": [user.vc], "servers": [agent.name for agent in stack.agents], "per_user": True}
    with stack.client("root") as root:
        made = root.post("/storages", json=about)
        assert made.is_success, made.text
        offered = lambda: len(root.get("/storages/data").json()["nodes"]) == len(stack.agents)  # noqa: E731
        wait_until(offered, "both servers to offer it")
        yield folder
        user.clear()
        assert root.delete("/storages/data").is_success
    subprocess.run(["umount", "--lazy", folder], check=False)
    folder.rmdir()


@pytest.fixture(scope="module")
def half_a_node(user: Person) -> int:
    """CPUs of a task of which two fill a node, so that four need both nodes."""
    return int(user.get("/nodes/gpu01")["cpu_milli"]) // 2000


class TestOnDocker(Journeys):
    def test_a_bare_torchrun_meets_over_two_nodes(
        self, user: Person, running_docker: DockerEngine, half_a_node: int
    ) -> None:
        job = user.run(
            f"cat >train.py <<'END'\n{RENDEZVOUS}END",
            "torchrun train.py",
            image=running_docker.ensure_image(images.TORCH), instances=2, cpu=half_a_node + 1, memory_mb=1024,
            completion={"minSucceededInstances": 2},
        )  # fmt: skip
        user.wait(job, "succeeded", deadline_s=240)
        assert {task["node"] for task in user.task_attempts(job)} == {"gpu01", "gpu02"}
        for rank in range(2):
            assert f"rank {rank} of 2: 3" in user.log_lines(job, rank)

    @pytest.mark.parametrize(("profile", "uid"), [("user", 20002), ("root", 0)])
    def test_code_comes_with_a_gang_on_two_nodes(
        self, user: Person, tmp_path: Path, half_a_node: int, profile: str, uid: int
    ) -> None:
        (tmp_path / "main.sh").write_text('echo "$(pwd) is of $(stat -c %u main.sh)"; touch made; ls made\n')
        code = user.berth.code.upload(tmp_path).id
        job = user.run(
            "sh main.sh", instances=3, cpu=half_a_node, memory_mb=1024, name=f"coded-{profile}",
            completion={"minSucceededInstances": 3}, berth={"code": code, "profile": profile},
        )  # fmt: skip
        user.wait(job, "succeeded")
        for rank in range(3):
            assert user.log_lines(job, rank) == [f"/workspace is of {uid}", "made"]

    @pytest.mark.parametrize(("profile", "uid"), [("user", 20002), ("root", 0)])
    def test_a_repository_is_cloned_as_the_user_of_the_job_and_kept_for_its_next_attempt(
        self, user: Person, running_docker: DockerEngine, profile: str, uid: int
    ) -> None:
        parameters = {"repo_uri": "file:///srv/a.git", "options": ["--depth 1"], "clone_dir": "$BERTH_JOB_DIR/code"}
        job = user.run(
            'cd "$BERTH_JOB_DIR/code"', 'echo "of $(stat -c %u train.sh)"', '[ "$BERTH_JOB_ATTEMPT" = 2 ]',
            "sh train.sh",
            image=git_image(running_docker), name=f"cloned-{profile}", berth={"profile": profile}, jobRetryCount=1,
            extras={PLUGINS: [{"plugin": "git", "parameters": parameters}]},
        )  # fmt: skip
        user.wait(job, "succeeded")
        (task,) = user.tasks(job)
        second, first = (user.log_text(job, attempt["id"]).splitlines() for attempt in task["attempts"])
        (cloned,) = [line for line in first if line.startswith("git plug-in: cloned file:///srv/a.git (commit ")]
        assert first[-1] == f"of {uid}"
        kept = cloned.replace("cloned", "found, and left as it is:")
        assert second == [kept, f"of {uid}", "trained"]

    def test_a_clone_in_an_image_without_git_says_so_and_goes_on_where_it_may(self, user: Person) -> None:
        plugin = {"plugin": "git", "parameters": {"repo_uri": "https://ann:hunter2@git.example.org/a.git"}}
        ended = user.run("echo never", extras={PLUGINS: [plugin]}, name="ended")
        goes_on = user.run("echo then", extras={PLUGINS: [{**plugin, "failurePolicy": "ignore"}]}, name="goes-on")
        failed = user.wait(ended, "failed")
        assert (failed["end_reason"], failed["exit_code"]) == ("failed", 1)
        user.wait(goes_on, "succeeded")
        for job, lines in ((ended, 1), (goes_on, 2)):
            told = user.log_lines(job)
            assert len(told) == lines
            assert "git plug-in: https://git.example.org/a.git is not cloned, since git is not" in "".join(told)

    @pytest.mark.parametrize(("profile", "uid"), [("user", 20002), ("root", 0)])
    def test_a_profile_decides_who_the_job_is_inside(self, user: Person, profile: str, uid: int) -> None:
        job = user.run(*WHOAMI, berth={"profile": profile}, name=f"as-{profile}")
        user.wait(job, "succeeded")
        lines = user.log_lines(job)
        assert lines[:3] == [str(uid), str(uid), "written"]
        assert lines[3] == ("home /home/alice of alice" if profile == "user" else "home /root of ")
        written = user.stack.jobs_root / "alice" / f"as-{profile}-1"
        assert (written.stat().st_uid, (written / "mine").stat().st_uid) == (20002, uid)

    def test_a_result_in_a_storage_below_a_mount_root_is_there_and_in_the_jobs_folder_to_be_downloaded(
        self, user: Person, data: Path
    ) -> None:
        job = user.run("echo weights >/data/model.pt", 'cp /data/model.pt "$BERTH_JOB_DIR"', name="result", **ON_DATA)
        user.wait(job, "succeeded")
        assert (data / user.name / "model.pt").read_text() == "weights\n"
        assert (user.stack.jobs_root / user.name / "result-1" / "model.pt").read_text() == "weights\n"
        assert user.http.get(f"/jobs/{job}/files/content?path=model.pt").text == "weights\n"

    def test_a_storage_that_goes_between_placing_and_start_keeps_the_job_waiting_until_it_is_back(
        self, user: Person, data: Path
    ) -> None:
        with standing_still(user.stack):
            job = user.run("echo begun; echo weights >/data/model.pt", name="goes", **ON_DATA)
            user.wait(job, "starting")
            subprocess.run(["umount", "--lazy", data], check=True)
        waiting = user.wait_for(job, lambda one: one["waiting"] and one["waiting"]["code"])["waiting"]
        assert (waiting["code"], "storage data is not mounted at" in waiting["message"]) == ("storage", True)
        (first,) = user.task_attempts(job)
        assert (first["cause"], first["started_at"], list(data.iterdir())) == ("storage_missing", None, [])
        assert "begun" not in user.log_lines(job)
        nobody = user.wait_for(job, lambda one: "no server that it may run on offers" in one["waiting_message"])
        assert f"nothing is mounted at {data}" in nobody["waiting_message"]
        mounted(data)
        user.wait(job, "succeeded", deadline_s=120)
        assert (data / user.name / "model.pt").read_text() == "weights\n"

    def test_requests_share_their_connections_to_the_database(self, user: Person, stack: Stack) -> None:
        sessions = "SELECT sum(sessions) FROM pg_stat_database"
        before = stack.sql(sessions)[0][0]
        for _ in range(60):
            user.get("/jobs?limit=1")
        assert stack.sql(sessions)[0][0] - before < 30

    def test_ssh_into_its_tasks_goes_as_the_page_says(
        self, user: Person, running_docker: DockerEngine, tmp_path: Path
    ) -> None:
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "key"], check=True)
        added = user.http.post("/me/ssh-keys", json={"public": (tmp_path / "key.pub").read_text()})
        assert added.is_success, added.text
        plugin = {PLUGINS: [{"plugin": "ssh", "parameters": {"jobssh": True}}]}
        image = ssh_image(running_docker)
        job = user.submit(job_file("sleep 300", image=image, instances=2, vc=user.vc, name="train", extras=plugin))

        def is_open(task: dict[str, Any]) -> bool:
            return bool(task["ssh"]) and task["ssh"]["state"] == "open"

        user.wait(job, "running")
        user.wait_for(job, lambda _: all(map(is_open, user.task_attempts(job))))
        ssh = user.task_attempts(job)[0]["ssh"]
        own = f"-F none -i {tmp_path}/key -o StrictHostKeyChecking=accept-new -o LogLevel=ERROR"
        with reader_of(tmp_path, {"BERTH_URL": user.stack.url, "BERTH_TOKEN": user.stack.tokens["alice"]}) as reader:
            reader.program("ssh", f'exec /usr/bin/ssh {own} -o UserKnownHostsFile={tmp_path}/known "$@"')
            words = {
                "20003": str(ssh["port"]), "berth-3f6c1b2a9d10": ssh["alias"],
                "root@gpu03": f"{ssh['user']}@{ssh['host']}",
                "worker/3": "worker/1", "nvidia-smi": "env",
                "6006": str(free_port()),
            }  # fmt: skip
            by_hand, first, _, forwarded, _ = asked = commands("docs/user/ssh.md", "SSH into a job")
            typed = dict.fromkeys((by_hand, first, forwarded), "echo in $PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX\n")
            said = reader.section("docs/user/ssh.md", "SSH into a job", words=words, typed=typed)
        assert [said[one].split()[-1] for one in (by_hand, first, forwarded)] == ["0", "0", "0"]
        assert "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX=1" in said[asked[2]].split()
        assert str(ssh["port"]) in said[asked[4]]
        user.stop(job)
