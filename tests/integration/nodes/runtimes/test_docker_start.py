"""Starting containers on a real Engine."""

from contextlib import closing
from pathlib import Path

from nodes.agent.runtimes.base import Image, Status
from nodes.agent.runtimes.docker.runtime import DockerRuntime
from tests.support.cluster.portal_side import spec_of
from tests.support.services.docker_engine import DockerEngine


def test_containers_made_before_the_engine_refused_raised_limits_all_start(
    docker_engine: DockerEngine, tmp_path: Path
) -> None:
    specs = [spec_of("sleep 60", profile="root") for _ in range(3)]
    runtime = DockerRuntime(
        cluster="berth",
        node="gpu01",
        url=docker_engine.url,
        gpus=tuple,
        simulated=True,
        raises_limits=True,
        notices=tmp_path,
        workspaces=tmp_path / "workspaces",
        images=tmp_path / "images.json",
    )
    with closing(runtime):
        for spec in specs:
            runtime.create(spec, "hash", Image(digest="", reference="busybox:latest"))
        assert [runtime.start(spec).status for spec in specs] == [Status.RUNNING] * 3
