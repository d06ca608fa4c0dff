"""Mirrors of image registries are set for all nodes, and told to them with their lists."""

from __future__ import annotations

import pytest
from django.test import override_settings

from portal.env.addresses import env_mirrors
from portal.env.values import BadSetting
from tests.support.cluster.world import World

NAME = "BERTH_REGISTRY_MIRROR"


@pytest.mark.parametrize(
    ("text", "mirrors"),
    [
        ("", {}),
        ("mirror.lab:5000", {"docker.io": "mirror.lab:5000"}),
        ("docker.io=m:5000, ghcr.io=m:5001", {"docker.io": "m:5000", "ghcr.io": "m:5001"}),
        ("127.0.0.1:5000=127.0.0.1:5001", {"127.0.0.1:5000": "127.0.0.1:5001"}),
    ],
)
def test_a_mirror_is_a_host_or_several_by_their_registry(
    monkeypatch: pytest.MonkeyPatch, text: str, mirrors: dict[str, str]
) -> None:
    monkeypatch.setenv(NAME, text)
    assert env_mirrors(NAME) == mirrors


@pytest.mark.parametrize("text", ["https://mirror.lab", "mirror.lab/path", "docker.io=", "a=b=c d"])
def test_an_address_is_no_host(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(NAME, text)
    with pytest.raises(BadSetting, match="a host such as mirror"):
        env_mirrors(NAME)


def test_nodes_are_told_with_their_lists(db: None) -> None:
    node = World().node("gpu01", gpus=1)
    with override_settings(REGISTRY_MIRRORS={"docker.io": "mirror:5000"}):
        assert node.desired().mirrors == {"docker.io": "mirror:5000"}
