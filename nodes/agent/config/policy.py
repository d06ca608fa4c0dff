"""The node's own policy file: what this server allows, whatever an order says.

TOML, read once at start; a server without one mounts nothing and runs every image::

    mount_roots = ["/mnt/share"]          # storages lie at or below these folders
    images      = ["*"]                   # shell patterns over the image's name as the job file gives it; with a
                                          # digest (team/x@sha256:…) no tag counts
    profiles    = ["user", "root"]
    networks    = ["bridge", "host"]

Privileged containers and the Docker socket are never allowed, so there is no word for them.
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from nodes.agent.runtimes.base import AttemptFailed
from nodes.protocol import wordings
from nodes.protocol.messages import ContainerSpec
from nodes.protocol.states import Cause

_PROFILES = ("user", "root")
_NETWORKS = ("bridge", "host")


class PolicyInvalid(Exception):
    """The policy file cannot be used. Its text is one sentence with the file's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What the node allows."""

    mount_roots: tuple[str, ...] = ()
    images: tuple[str, ...] = ("*",)
    profiles: tuple[str, ...] = _PROFILES
    networks: tuple[str, ...] = _NETWORKS

    def check(self, spec: ContainerSpec) -> None:
        """Checks that this node may run the spec. Raises ``AttemptFailed`` with ``Cause.REFUSED``."""
        if not any(fnmatchcase(_image_name(spec.image), pattern) for pattern in self.images):
            raise _refused(wordings.THE_IMAGE(image=spec.image))
        if spec.profile not in self.profiles:
            raise _refused(wordings.THE_PROFILE(profile=spec.profile))
        if spec.profile == "user" and spec.uid == 0:
            raise _refused(wordings.ROOT_AS_USER())
        if spec.network not in self.networks:
            raise _refused(wordings.THE_NETWORK(network=spec.network))
        for mount in spec.mounts:
            if not self.allows_root(mount.root):
                raise _refused(wordings.MOUNTS_FROM(root=mount.root))

    def allows_root(self, root: str) -> bool:
        """Whether ``root`` is one of the mount roots or lies below one, also with links followed: below them are
        folders of users, who could put a link where an order expects a folder."""
        path = PurePosixPath(root)
        above = [one for one in self.mount_roots if path.is_relative_to(one)]
        return ".." not in path.parts and any(
            PurePosixPath(os.path.realpath(path)) == PurePosixPath(os.path.realpath(one)) / path.relative_to(one)
            for one in above
        )


def _image_name(image: str) -> str:
    """The name as a job gives it; with a digest, without the tag, which then chooses nothing."""
    name, at, digest = image.partition("@")
    before, slash, last = name.rpartition("/")
    return f"{before}{slash}{last.partition(':')[0]}{at}{digest}" if at else image


def policy_load(path: Path | None, mount_roots: tuple[str, ...] = ()) -> Policy:
    """The policy of a file (None: the default), with ``mount_roots`` added. Raises PolicyInvalid."""
    policy = Policy() if path is None else _read(path)
    policy = replace(policy, mount_roots=(*policy.mount_roots, *mount_roots))
    for root in policy.mount_roots:
        if not root.startswith("/") or PurePosixPath(root) == PurePosixPath("/"):
            raise PolicyInvalid(f"the mount root {root!r} must be an absolute folder other than /")
    return policy


def _read(path: Path) -> Policy:
    try:
        data = tomllib.loads(path.read_text())
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise PolicyInvalid(f"{path} cannot be read as a policy: {error}") from error
    values = {name: _texts(path, name, value) for name, value in data.items()}
    unknown = values.keys() - set(Policy.__dataclass_fields__)
    if unknown:
        raise PolicyInvalid(f"{path} has unknown words: {', '.join(sorted(unknown))}")
    return Policy(**values)


def _texts(path: Path, name: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise PolicyInvalid(f"{path}: {name} must be a list of texts")
    return tuple(value)


def _refused(what: str) -> AttemptFailed:
    return AttemptFailed(Cause.REFUSED, wordings.NOT_ALLOWED(what=what))
