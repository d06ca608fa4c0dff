"""The Docker runtime on a real Engine, without an agent around it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from signal import SIGKILL, SIGTERM
from subprocess import Popen
from threading import Thread

import pytest

from nodes.agent.logs.base import Position
from nodes.agent.logs.sidecar import position_after
from nodes.agent.runtimes.base import AttemptFailed, Cancelled, Image, RuntimeContainer, RuntimeUnavailable, Status
from nodes.agent.runtimes.cgroups import machine_raises_limits
from nodes.agent.runtimes.docker.runtime import DockerRuntime
from nodes.protocol.logs import LogRecord
from nodes.protocol.messages import ContainerSpec, Progress, encode, spec_digest
from nodes.protocol.names import container_name
from nodes.protocol.states import Cause
from tests.support.cluster.portal_side import COUNT, lines, spec_of
from tests.support.run.waiting import wait_until
from tests.support.services.docker_engine import DockerEngine
from tests.support.services.registry import image_made, image_of

pytestmark = pytest.mark.docker

COUNTED = COUNT.format(lines=400, pause="")


def runtime_of(engine: DockerEngine, notices: Path, *, node: str = "gpu01", simulated: bool = True) -> DockerRuntime:
    return DockerRuntime(
        cluster="berth",
        node=node,
        url=engine.url,
        gpus=tuple,
        simulated=simulated,
        raises_limits=machine_raises_limits(),
        notices=notices,
        workspaces=notices / "workspaces",
        images=notices / "images.json",
    )


@pytest.fixture
def runtime(docker_engine: DockerEngine, tmp_path: Path) -> Iterator[DockerRuntime]:
    runtime = runtime_of(docker_engine, tmp_path)
    yield runtime
    runtime.close()


def unheard(progress: Progress) -> None:
    """Nobody listens."""


def image(runtime: DockerRuntime, **changes: object) -> Image:
    return runtime.image(spec_of("true", **changes), mirrors={}, progress=unheard, cancelled=lambda: False)


def started(runtime: DockerRuntime, script: str) -> RuntimeContainer:
    spec = spec_of(script)
    runtime.create(spec, spec_digest(encode(spec)), image(runtime))
    return runtime.start(spec)


def ended(runtime: DockerRuntime, attempt: str) -> RuntimeContainer:
    def look() -> RuntimeContainer | None:
        found = runtime.find(attempt)
        return found if found is not None and found.status is Status.ENDED else None

    return wait_until(look, "the container's end")


def test_what_is_made_is_found_by_its_labels_until_it_is_removed(runtime: DockerRuntime) -> None:
    spec = spec_of("sleep 600", gpus=("GPU-1", "GPU-2"))
    made = runtime.create(spec, "hash-1", image(runtime))
    assert (made.status, made.spec_hash, made.gpus) == (Status.CREATED, "hash-1", ("GPU-1", "GPU-2"))
    assert runtime.create(spec, "hash-1", image(runtime)) == made
    assert runtime.start(spec).status is Status.RUNNING
    assert runtime.start(spec).container == made.container
    assert [one.container for one in runtime.found().values()] == [made.container]
    runtime.remove(spec.attempt)
    runtime.remove(spec.attempt)
    assert runtime.find(spec.attempt) is None


def test_a_container_that_ended_is_not_started_again(runtime: DockerRuntime) -> None:
    found = started(runtime, "exit 5")
    first = ended(runtime, found.attempt)
    again = runtime.start(spec_of("exit 5", attempt=found.attempt))
    assert again == first
    assert again.ending is not None
    assert again.ending.code == 5


def test_another_nodes_container_of_the_same_name_is_not_taken(
    runtime: DockerRuntime, docker_engine: DockerEngine, tmp_path: Path
) -> None:
    spec = spec_of("true")
    runtime.create(spec, "h", image(runtime))
    other = runtime_of(docker_engine, tmp_path, node="gpu02")
    with pytest.raises(AttemptFailed) as failed:
        other.create(spec, "h", image(other))
    assert failed.value.cause is Cause.ENGINE_FAULT
    other.remove(spec.attempt)
    assert runtime.find(spec.attempt) is not None


@pytest.mark.parametrize("adapters", [["mlx5_0"], [], None], ids=["one", "none", "no driver"])
def test_a_job_gets_the_servers_infiniband_or_is_told_that_there_is_none(
    docker_engine: DockerEngine, tmp_path: Path, adapters: list[str] | None
) -> None:
    told: list[tuple[str, str]] = []
    listed = tmp_path / "class"
    for name in adapters or ():
        (listed / name).mkdir(parents=True)
    if adapters == []:
        listed.mkdir()
    with closing(
        DockerRuntime(
            cluster="berth", node="gpu01", url=docker_engine.url, gpus=tuple, simulated=True, raises_limits=False,
            notices=tmp_path, workspaces=tmp_path, images=tmp_path / "images.json", infiniband=listed,
            note=lambda attempt, text: told.append((attempt, text)),
        )
    ) as runtime:  # fmt: skip
        plain, wants = spec_of("true"), spec_of("true", limits=replace(spec_of("true").limits, infiniband=True))
        devices = [device_names(docker_engine, runtime, spec) for spec in (plain, wants)]
    assert devices == [[], ["/dev/infiniband"] if adapters else []]
    assert [attempt for attempt, _ in told] == ([] if adapters else [wants.attempt])
    assert all("no InfiniBand" in text for _, text in told)


def test_a_job_is_told_of_an_entrypoint_that_is_not_run_and_may_write_beside_the_images_files(
    docker_engine: DockerEngine, tmp_path: Path
) -> None:
    files = {"bin/busybox": Path("/bin/busybox").read_bytes(), "workspace/README": b"root's"}
    links = {f"bin/{one}": "busybox" for one in ("sh", "touch", "cat", "stat")}
    told: list[str] = []
    with docker_engine.client() as client:
        image_of(client, "filled:1", files, links=links, entrypoint='["/opt/entry.sh", "--verbose"]')
    with closing(
        DockerRuntime(
            cluster="berth", node="gpu01", url=docker_engine.url, gpus=tuple, simulated=True, raises_limits=False,
            notices=tmp_path / "notices", workspaces=tmp_path / "code", images=tmp_path / "images.json",
            note=lambda attempt, text: told.append(text),
        )
    ) as runtime:  # fmt: skip
        spec = spec_of("touch new; stat -c %u . README; cat README", image="filled:1")
        runtime.create(spec, "hash", image(runtime, image="filled:1"))
        runtime.start(spec)
        ended(runtime, spec.attempt)
        out = b"".join(record.payload for record in runtime.source(spec.attempt).frames(Position()))
        runtime.remove(spec.attempt)
    assert out == b"5000\n0\nroot's"
    (line,) = told
    assert line.startswith("the image's ENTRYPOINT (/opt/entry.sh --verbose) is not run")


def device_names(engine: DockerEngine, runtime: DockerRuntime, spec: ContainerSpec) -> list[str]:
    """Those of the server that the container is made with."""
    made = runtime.create(spec, "hash", image(runtime))
    with engine.client() as client:
        devices = client.api.inspect_container(made.container)["HostConfig"]["Devices"] or []
    runtime.remove(spec.attempt)
    return [str(one["PathOnHost"]) for one in devices]


def test_no_core_is_dumped(runtime: DockerRuntime) -> None:
    found = started(runtime, "ulimit -c")
    ended(runtime, found.attempt)
    assert [record.payload for record in runtime.source(found.attempt).frames(Position())] == [b"0\n"]


@pytest.mark.parametrize(("number", "code"), [(SIGTERM, 143), (SIGKILL, 137)])
def test_a_signal_ends_it_also_when_it_is_frozen(runtime: DockerRuntime, number: int, code: int) -> None:
    found = started(runtime, "sleep 600 & wait")
    runtime.source(found.attempt).freeze()
    runtime.signal(found.attempt, number)
    ending = ended(runtime, found.attempt).ending
    assert ending is not None
    assert ending.code == code
    runtime.signal(found.attempt, number)


def test_events_tell_of_starts_and_ends(runtime: DockerRuntime) -> None:
    heard: list[str] = []
    runtime.watch(heard.append)
    probe = started(runtime, "true")
    wait_until(lambda: heard.count(probe.attempt) >= 2, "the events of a start and an end")


def test_its_processes_are_known_and_what_they_use(runtime: DockerRuntime) -> None:
    found = started(runtime, "while :; do :; done")
    pid = int(runtime._engine.client().inspect_container(container_name(found.attempt))["State"]["Pid"])
    assert runtime.owner(pid) == found.attempt
    assert runtime.owner(1) is None
    usage = wait_until(lambda: runtime.usage().get(found.attempt), "what it uses")
    assert usage.memory_mb < 256
    wait_until(lambda: runtime.usage()[found.attempt].cpu_s > usage.cpu_s, "more CPU time")


def test_a_process_is_known_as_a_containers_also_when_that_has_ended(runtime: DockerRuntime) -> None:
    found, other = started(runtime, "sleep 600 & wait"), started(runtime, "sleep 600 & wait")
    pid = int(runtime._engine.client().inspect_container(container_name(found.attempt))["State"]["Pid"])
    assert (runtime.belongs(pid, found.container), runtime.belongs(pid, other.container)) == (True, False)
    with Popen(["sleep", "600"]) as left:
        move_beside(pid, left.pid)
        runtime.signal(found.attempt, SIGKILL)
        ended(runtime, found.attempt)
        assert (runtime.owner(left.pid), runtime.belongs(left.pid, found.container)) == (None, True)
        left.kill()
        left.wait()
        assert not runtime.belongs(left.pid, found.container)
    runtime.signal(other.attempt, SIGKILL)
    ended(runtime, other.attempt)


def move_beside(pid: int, other: int) -> None:
    """Puts a process of the host into a container's cgroup (cgroup v2, else that which counts processes): one that
    stays there when the container ends stands for one that hangs in the kernel."""
    places = dict(line.split(":", 2)[1:] for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines())
    kind = "pids" if "pids" in places else ""
    (Path("/sys/fs/cgroup") / kind / places[kind].lstrip("/") / "cgroup.procs").write_text(str(other))


def test_real_gpus_reach_the_container_by_their_uuids_whatever_the_user_wrote(
    docker_engine: DockerEngine, tmp_path: Path
) -> None:
    runtime = runtime_of(docker_engine, tmp_path, simulated=False)
    uuids = "GPU-11111111-1111-1111-1111-111111111111", "GPU-22222222-2222-2222-2222-222222222222"
    spec = spec_of("echo $NVIDIA_VISIBLE_DEVICES", gpus=uuids, env={"NVIDIA_VISIBLE_DEVICES": "all"})
    runtime.create(spec, spec_digest(encode(spec)), image(runtime))
    runtime.start(spec)
    ended(runtime, spec.attempt)
    (said,) = runtime.source(spec.attempt).frames(Position())
    assert said.payload.decode() == ",".join(uuids) + "\n"


# ---------------------------------------------------------------- logs


def test_a_log_is_read_on_from_any_place_without_gap_or_double(runtime: DockerRuntime) -> None:
    found = started(runtime, COUNTED)
    ended(runtime, found.attempt)
    whole = list(runtime.source(found.attempt).frames(Position()))
    assert b"".join(record.payload for record in whole).decode() == lines(400)
    for cut in (0, 1, 17, 399, 400):
        after = position_after(Position(), whole[:cut])
        assert list(runtime.source(found.attempt).frames(after)) == whole[cut:]


def test_a_long_log_is_read_on_in_its_place_where_the_clock_was_set_back(
    runtime: DockerRuntime, docker_engine: DockerEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After three quarters of its lines, by half an hour."""
    found = started(runtime, COUNTED)
    ended(runtime, found.attempt)
    file = docker_engine.folder / "data" / "containers" / found.container / f"{found.container}-json.log"
    told = [json.loads(line) for line in file.read_text().splitlines()]
    for number, line in enumerate(told):
        moment = datetime.now(UTC) + timedelta(minutes=20 if number < 300 else -10, seconds=number)
        line["time"] = moment.isoformat().replace("+00:00", "Z")
    file.write_text("".join(f"{json.dumps(line)}\n" for line in told))
    whole = list(runtime.source(found.attempt).frames(Position()))
    assert b"".join(record.payload for record in whole).decode() == lines(400)
    monkeypatch.setattr("nodes.agent.runtimes.docker.logs.NEVER_ROTATED_BYTES", 0)
    for cut in (17, 299, 300, 301, 399, 400):
        after = position_after(Position(), whole[:cut])
        assert list(runtime.source(found.attempt).frames(after)) == whole[cut:]


def test_a_living_log_comes_as_it_is_written_and_ends_with_the_container(runtime: DockerRuntime) -> None:
    found = started(runtime, "echo first; sleep 1; echo last")
    records = runtime.source(found.attempt).frames(Position())
    assert next(records).payload == b"first\n"
    assert time.time_ns() - found_time(runtime, found) < 900_000_000
    assert [record.payload for record in records] == [b"last\n"]


def found_time(runtime: DockerRuntime, found: RuntimeContainer) -> int:
    return (found.started_ms or 0) * 1_000_000


def test_a_reader_that_is_closed_ends_soon_and_the_container_runs_on(runtime: DockerRuntime) -> None:
    found = started(runtime, "echo first; sleep 600")
    source, read = runtime.source(found.attempt), list[LogRecord]()
    reader = Thread(target=lambda: read.extend(source.frames(Position())), daemon=True)
    reader.start()
    wait_until(lambda: source_is_open(source), "the reader")
    source.close()
    reader.join(3)
    assert not reader.is_alive()
    again = runtime.find(found.attempt)
    assert again is not None
    assert again.status is Status.RUNNING


def source_is_open(source: object) -> bool:
    return getattr(source, "_response", None) is not None


def test_a_log_of_a_container_that_is_gone_is_read_whole(runtime: DockerRuntime) -> None:
    assert list(runtime.source("no-such-attempt").frames(Position())) == []


# ---------------------------------------------------------------- images


def test_an_image_made_on_the_node_is_taken_without_asking_a_registry(
    runtime: DockerRuntime, docker_engine: DockerEngine
) -> None:
    with docker_engine.client() as client:
        made = str(client.images.get("busybox:latest").id)
    assert image(runtime) == Image(digest=made, reference=made)
    assert image(runtime, digest=made).digest == made


def test_an_ordered_digest_is_taken_whatever_the_tag_names_now(
    runtime: DockerRuntime, docker_engine: DockerEngine, python_image: str
) -> None:
    with docker_engine.client() as client:
        old = image_made(client, "moving:1")
        assert image(runtime, image="moving:1").digest == old
        client.images.get(python_image).tag("moving:1")
        assert image(runtime, image="moving:1", digest=old).digest == old
        client.images.get(old).tag("moving:old")
        assert image(runtime, image="docker.io/library/moving:1", digest=old).digest == old


def test_an_ordered_digest_is_no_image_of_another_name_that_happens_to_be_here(
    runtime: DockerRuntime, docker_engine: DockerEngine
) -> None:
    with docker_engine.client() as client:
        others = image_made(client, "their-model:1")
    for name in ("busybox:latest", "never-seen:1"):
        with pytest.raises(AttemptFailed) as failed:
            image(runtime, image=name, digest=others)
        assert failed.value.cause in {Cause.IMAGE_MISMATCH, Cause.IMAGE_AWAY, Cause.IMAGE_DENIED}  # by who is asked
    assert image(runtime, image="their-model:2", digest=others).digest == others


def test_a_pull_ends_when_nobody_wants_it(runtime: DockerRuntime) -> None:
    spec = replace(spec_of("true"), image="192.0.2.1:5000/slow:1")
    with pytest.raises(Cancelled):
        runtime.image(spec, mirrors={}, progress=unheard, cancelled=lambda: True)


def test_an_engine_that_does_not_answer_is_away_and_not_a_failure(tmp_path: Path) -> None:
    runtime = DockerRuntime(
        cluster="berth",
        node="gpu01",
        url="unix:///nowhere.sock",
        gpus=tuple,
        simulated=True,
        raises_limits=True,
        notices=tmp_path,
        workspaces=tmp_path / "workspaces",
        images=tmp_path / "images.json",
    )
    with pytest.raises(RuntimeUnavailable):
        runtime.found()
    with pytest.raises(RuntimeUnavailable):
        runtime.facts()
