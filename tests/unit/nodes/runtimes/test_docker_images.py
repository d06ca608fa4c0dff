"""Names, logins and progress of images; the Engine's own part is tried in test_docker.py."""

from __future__ import annotations

from typing import Any

import pytest

from nodes.agent.runtimes.docker.images import PullProgress, registry_of


@pytest.mark.parametrize(
    ("image", "registry"),
    [
        ("busybox", "docker.io"),
        ("busybox:1.36", "docker.io"),
        ("team/app@sha256:" + "0" * 64, "docker.io"),
        ("registry.example/team/app:1", "registry.example"),
        ("localhost:5000/app", "localhost:5000"),
    ],
)
def test_an_images_registry_is_its_names_host(image: str, registry: str) -> None:
    assert registry_of(image) == registry


def test_progress_adds_all_layers_up_and_never_falls() -> None:
    done = PullProgress()
    events: list[tuple[dict[str, Any], int]] = [
        ({"status": "Pulling fs layer", "id": "a"}, 0),
        ({"status": "Downloading", "id": "a", "progressDetail": {"current": 50, "total": 100}}, 50),
        ({"status": "Downloading", "id": "b", "progressDetail": {"current": 0, "total": 300}}, 50),
        ({"status": "Downloading", "id": "b", "progressDetail": {"current": 270, "total": 300}}, 80),
        ({"status": "Download complete", "id": "a"}, 92),
        ({"status": "Pull complete", "id": "b"}, 100),
        ({"status": "Status: Downloaded newer image"}, 100),
    ]
    assert [done.take(event) for event, _ in events] == [percent for _, percent in events]
