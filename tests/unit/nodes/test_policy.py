"""The node's own policy holds whatever an order says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nodes.agent.config.policy import Policy, PolicyInvalid, policy_load
from nodes.agent.runtimes.base import AttemptFailed
from nodes.protocol.messages import Mount
from nodes.protocol.states import Cause
from tests.support.cluster.portal_side import spec_of
from tests.support.people.documents import blocks

POLICY = Policy(mount_roots=("/mnt/share",), images=("docker.io/team/*", "busybox:*"), networks=("bridge",))


def mount(root: str) -> tuple[Mount, ...]:
    return (Mount(storage="s", root=root, source=f"{root}/x", target="/x"),)


@pytest.mark.parametrize(
    "changes",
    [
        {"image": "evil/miner:latest"},
        {"network": "host"},
        {"profile": "user", "uid": 0},
        {"mounts": mount("/")},
        {"mounts": mount("/etc")},
        {"mounts": mount("/mnt/share2")},
        {"mounts": mount("/mnt/share/../..")},
    ],
    ids=["image", "network", "root in disguise", "the whole disk", "etc", "a name that begins alike", "dots"],
)
def test_what_the_policy_does_not_allow_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(AttemptFailed) as failed:
        POLICY.check(spec_of("true", **changes))
    assert failed.value.cause is Cause.REFUSED


@pytest.mark.parametrize(
    "changes", [{}, {"image": "docker.io/team/x:1"}, {"mounts": mount("/mnt/share")}, {"mounts": mount("/mnt/share/a")}]
)
def test_what_it_allows_passes(changes: dict[str, Any]) -> None:
    POLICY.check(spec_of("true", **changes))


def test_of_an_image_with_a_digest_the_tag_that_it_bears_beside_it_allows_nothing() -> None:
    tagged = Policy(images=("team/x:approved*", "lab:5000/y@sha256:*"))
    tagged.check(spec_of("true", image="team/x:approved-1"))
    tagged.check(spec_of("true", image=f"lab:5000/y:1@sha256:{'0' * 64}"))
    with pytest.raises(AttemptFailed):
        tagged.check(spec_of("true", image=f"team/x:approved@sha256:{'0' * 64}"))


def test_a_link_below_a_root_leads_nowhere(tmp_path: Path) -> None:
    """Whoever may write below one could put it there, where an administrator has made a storage of a user's folder."""
    (tmp_path / "disk" / "alice").mkdir(parents=True)
    (tmp_path / "share").symlink_to(tmp_path / "disk")
    policy = Policy(mount_roots=(str(tmp_path / "share"),))
    policy.check(spec_of("true", mounts=mount(f"{tmp_path}/share/alice")))
    (tmp_path / "disk" / "alice" / "out").symlink_to("/etc")
    (tmp_path / "disk" / "bob").symlink_to(tmp_path / "disk" / "alice")
    for root in ("alice/out", "alice/out/ssh", "bob"):
        with pytest.raises(AttemptFailed) as failed:
            policy.check(spec_of("true", mounts=mount(f"{tmp_path}/share/{root}")))
        assert failed.value.cause is Cause.REFUSED


def test_without_a_file_nothing_is_mounted_and_every_image_runs() -> None:
    policy = policy_load(None)
    policy.check(spec_of("true", image="any/thing", profile="root"))
    with pytest.raises(AttemptFailed):
        policy.check(spec_of("true", mounts=mount("/mnt/share")))


def test_a_file_is_read_and_roots_of_the_settings_are_added(tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    file.write_text('mount_roots = ["/mnt/a"]\nprofiles = ["user"]\n')
    policy = policy_load(file, ("/mnt/b",))
    assert policy.mount_roots == ("/mnt/a", "/mnt/b")
    assert policy.profiles == ("user",)


def test_the_policy_of_the_page_allows_what_it_says_and_nothing_else(tmp_path: Path) -> None:
    (block,) = [one for one in blocks("docs/admin/servers.md") if one.heading == "A server's own policy"]
    file = tmp_path / "policy.toml"
    file.write_text(block.text)
    policy = policy_load(file)
    policy.check(spec_of("true"))
    for changes in ({"image": "evil/miner:latest"}, {"profile": "root"}, {"network": "host"}):
        with pytest.raises(AttemptFailed) as failed:
            policy.check(spec_of("true", **changes))
        assert failed.value.cause is Cause.REFUSED


@pytest.mark.parametrize(
    "text",
    [
        "mount_roots = [",
        'mount_root = ["/mnt"]',
        'images = "x"',
        "images = [1]",
        'mount_roots = ["/"]',
        'mount_roots = ["x"]',
    ],
    ids=["no TOML", "an unknown word", "a text", "numbers", "the whole disk", "a relative folder"],
)
def test_a_file_that_cannot_be_obeyed_is_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "policy.toml"
    file.write_text(text)
    with pytest.raises(PolicyInvalid):
        policy_load(file)
