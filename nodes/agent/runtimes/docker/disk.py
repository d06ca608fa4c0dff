"""Disk usage of the Engine: images with their last use, and the layers that containers write into."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import requests
from docker.errors import APIError, NotFound, create_api_error_from_http_exception

from nodes.agent.disk.image_use import ImageUses
from nodes.agent.runtimes.base import RuntimeUnavailable, StoredImage, WritableLayer
from nodes.agent.runtimes.docker.client import keeps_in_containerd
from nodes.agent.runtimes.docker.engine import Engine
from nodes.agent.runtimes.docker.faults import engine_errors, engine_failures
from nodes.protocol.messages import DiskShare
from nodes.protocol.names import LABEL

_NO_NAME, _NOT_FOUND, _CONFLICT = 400, 404, 409


class DockerStore:
    """``ImageStore`` over one Engine. ``workspaces``: where the code of tasks lies."""

    def __init__(self, engine: Engine, uses: ImageUses, workspaces: Path) -> None:
        self._engine, self._uses, self._workspaces = engine, uses, workspaces
        self._client = engine.client()

    def images_seen(self) -> None:
        now = int(time.time() * 1000)
        self._uses.listing()
        with engine_failures():
            there = {one["Id"]: bool(_digests(one)) for one in self._client.images()}
            running = self._client.containers()
        self._uses.keep(there, now)
        ours = {one["ImageID"] for one in running if self._engine.owns(one.get("Labels") or {})}
        self._uses.note(ours & there.keys(), now)

    def images(self) -> list[StoredImage]:
        with engine_failures():
            listed = self._client.images()
            used = {one["ImageID"] for one in self._client.containers(all=True)}
            in_containerd = keeps_in_containerd(self._client)
        return [self._stored(one, used, in_containerd) for one in listed]

    def named(self, names: Iterable[str]) -> set[str]:
        return {found for name in names if (found := self._image_id(name)) is not None}

    def _image_id(self, name: str) -> str | None:
        with engine_failures():
            try:
                image: dict[str, Any] = self._client.inspect_image(name)  # type: ignore[no-untyped-call]
            except APIError as error:
                if error.status_code in (_NO_NAME, _NOT_FOUND):
                    return None
                raise
        return str(image["Id"])

    def remove(self, image: StoredImage) -> bool:
        """Removes name by name and never by force: the Engine refuses what something has begun to use."""
        for name in (*image.names, image.id):
            with engine_errors():
                try:
                    self._client.remove_image(name, force=False)
                except NotFound:
                    continue
                except APIError as error:
                    if error.status_code == _CONFLICT:
                        return False
                    raise RuntimeUnavailable(f"the Engine cannot remove an image: {error.explanation}") from error
        return True

    def writable_layers(self) -> list[WritableLayer]:
        with engine_failures():
            listed = self._client.containers(filters={"label": self._engine.labels})
        return [
            WritableLayer(
                attempt=one["Labels"][LABEL.ATTEMPT],
                container=one["Id"],
                job=_name(one),
                volumes=tuple(_volumes_of(one)),
                workspace=self._workspaces / one["Labels"][LABEL.ATTEMPT],
            )
            for one in listed
        ]

    def layer(self, container: str, timeout_s: float) -> int | None:
        try:
            found = self._counted(f"/containers/{container}/json", timeout_s, size=1)
        except NotFound:
            return None
        return int(found.get("SizeRw") or 0)

    def volumes(self, timeout_s: float) -> dict[str, int]:
        """Engines before 23 know no ``type`` and count images and containers too."""
        return _sizes(self._counted("/system/df", timeout_s, type="volume"))

    def shares(self, timeout_s: float) -> list[DiskShare]:
        used = self._counted("/system/df", timeout_s)
        volumes = sum(_sizes(used).values())
        cache = sum(one.get("Size", 0) for one in used.get("BuildCache") or ())
        whole = {"images": used.get("LayersSize") or 0, "volumes": volumes, "build cache": cache}
        found = [DiskShare(what=what, mb=size >> 20) for what, size in whole.items() if size >> 20]
        layers = ((one, int(one.get("SizeRw") or 0) >> 20) for one in used.get("Containers") or ())
        return found + [DiskShare(what="layer", name=_name(one), mb=mb) for one, mb in layers if mb]

    def _counted(self, path: str, timeout_s: float, **params: str | int) -> dict[str, Any]:
        """Sizes that the Engine counts file by file, asked by a client of its own. Raises NotFound."""
        with engine_failures(), closing(self._engine.connect(timeout_s)) as client:
            url = f"{client.base_url}/v{client.api_version}{path}"
            response = client.get(url, params=params, timeout=timeout_s)
            try:
                response.raise_for_status()
            except requests.HTTPError as error:
                create_api_error_from_http_exception(error)
            found: dict[str, Any] = response.json()
            return found

    def _stored(self, one: dict[str, Any], used: set[str], in_containerd: bool) -> StoredImage:
        tags = [name for name in one.get("RepoTags") or () if name != "<none>:<none>"]
        names = (*tags, *_digests(one))
        fetched_again = self._uses.is_pulled(one["Id"]) if in_containerd else bool(_digests(one))
        return StoredImage(
            id=one["Id"],
            names=names,
            bytes=int(one.get("Size") or 0),
            used=one["Id"] in used,
            refetchable=fetched_again or not names,
            last_used_ms=self._uses.last(one["Id"]),
        )


def _sizes(used: dict[str, Any]) -> dict[str, int]:
    """Bytes of each volume, by name."""
    volumes = used.get("Volumes") or ()
    return {str(one["Name"]): max(0, (one.get("UsageData") or {}).get("Size", 0)) for one in volumes}


def _digests(image: dict[str, Any]) -> list[str]:
    """Names with a digest, of a listed image."""
    return [name for name in image.get("RepoDigests") or () if not name.startswith("<none>")]


def _volumes_of(container: dict[str, Any]) -> list[str]:
    return [str(one["Name"]) for one in container.get("Mounts") or () if one.get("Type") == "volume"]


def _name(container: dict[str, Any]) -> str:
    """The job of a container of ours, else the Engine's name."""
    labels = container.get("Labels") or {}
    names = container.get("Names") or [container["Id"][:12]]
    return str(labels.get(LABEL.JOB) or names[0].lstrip("/"))
