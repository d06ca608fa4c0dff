"""Image resolution: which digest an image has, whether the submitter may use it, and its pull."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Any

import docker
import requests
import structlog
from docker.auth import resolve_repository_name
from docker.errors import APIError, ImageNotFound
from docker.utils import parse_repository_tag

from nodes.agent.disk.image_use import ImageUses
from nodes.agent.runtimes.base import AttemptFailed, Image
from nodes.agent.runtimes.docker.client import keeps_in_containerd
from nodes.agent.runtimes.docker.engine import Engine
from nodes.agent.runtimes.docker.faults import engine_errors, engine_failures, pull_failure
from nodes.agent.runtimes.docker.pull import Pull, repository_tag
from nodes.protocol import wordings
from nodes.protocol.messages import ContainerSpec, Progress
from nodes.protocol.states import Cause

log = structlog.get_logger(__name__)

_HUB = ("docker.io", "index.docker.io", "registry-1.docker.io")
_REGISTRY_TIMEOUT_S = 20
_ID = re.compile(r"sha256:[0-9a-f]{64}")


def entrypoint_of(client: docker.APIClient, reference: str) -> Sequence[str]:
    """The image's ENTRYPOINT. Raises ``AttemptFailed``, ``RuntimeUnavailable``."""
    with engine_errors():
        image: dict[str, Any] = client.inspect_image(reference)  # type: ignore[no-untyped-call]
    return (image.get("Config") or {}).get("Entrypoint") or ()


@dataclass(slots=True)
class PullProgress:
    """Sums up the layers' progress in one percentage that never falls."""

    percent: int = 0
    _layers: dict[str, tuple[int, int]] = field(default_factory=dict)

    def take(self, event: dict[str, Any]) -> int:
        """The percentage after one event of the pull."""
        detail = event.get("progressDetail") or {}
        if event.get("status") == "Downloading" and detail.get("total"):
            self._layers[event["id"]] = (int(detail["current"]), int(detail["total"]))
        elif event.get("status") in ("Download complete", "Pull complete") and event.get("id") in self._layers:
            total = self._layers[event["id"]][1]
            self._layers[event["id"]] = (total, total)
        whole = sum(total for _, total in self._layers.values())
        if whole:
            self.percent = max(self.percent, 100 * sum(done for done, _ in self._layers.values()) // whole)
        return self.percent


class ImageResolver:
    """Resolves images on one Engine. ``uses`` knows which images here came by a login only."""

    def __init__(self, engine: Engine, uses: ImageUses) -> None:
        self._engine, self._uses = engine, uses
        self._client = engine.client()

    def find(
        self,
        spec: ContainerSpec,
        *,
        mirrors: Mapping[str, str],
        progress: Callable[[Progress], None],
        cancelled: Callable[[], bool],
    ) -> Image:
        """The image of a spec, pulled where needed. Raises ``AttemptFailed`` or ``Cancelled``.

        An image from no registry (built or imported here) is taken as it is: an image in containerd's store that this
        agent did not pull counts as such, unless a registry has that very digest. An image with a login, or that came
        here by one, is asked for at its registry each time, cached or not, and never at a mirror. Otherwise the
        registry's mirror, then the registry itself is asked for the tag's digest now, and for that very digest; if
        neither answers, what is on the node is good enough.
        """
        auth, mirror = _login(spec), _mirrored(spec.image, mirrors)
        local = self._ordered(spec, mirror) or self._named(spec.image)
        if auth is not None or (local is not None and self._is_private(local)):
            return self._checked(spec, local, auth, progress, cancelled)
        image = self._settled(spec, mirror, local)
        if image is not None:
            return image
        wanted = spec.digest or self._digest_now(spec.image, mirror, local)
        image = _with_digest(spec.image, local, wanted)
        if image is not None:
            self._note_pulled(image.reference)
            return image
        try:
            return self._fetched(spec, wanted, mirror, progress, cancelled)
        except AttemptFailed as failed:
            if local is None:
                raise
            if spec.digest is not None:
                raise _mismatch(spec, local) from failed
            return _image(spec.image, local)

    def _checked(
        self,
        spec: ContainerSpec,
        local: dict[str, Any] | None,
        auth: dict[str, str] | None,
        progress: Callable[[Progress], None],
        cancelled: Callable[[], bool],
    ) -> Image:
        """The image, if its registry gives it to this login (None: to everybody) now."""
        wanted = self._remote_digest(_pinned(spec.image, spec.digest), auth)
        image = _with_digest(spec.image, local, wanted)
        if image is None:
            self._pull(_pinned(spec.image, wanted), auth, progress, cancelled)
            image = self._after_pull(spec, wanted)
        here = self._local(image.reference)
        if auth is not None and here is not None and (self._is_private(here) or not self._is_public(spec.image)):
            self._uses.note_private(here["Id"])  # also what is private already: it may have come a second time
        self._note_pulled(image.reference)
        return image

    def _settled(self, spec: ContainerSpec, mirror: str | None, local: dict[str, Any] | None) -> Image | None:
        """A local image that needs no registry: the digest asked for, or an image that no registry has."""
        if local is None:
            return None
        if spec.digest is not None:
            return _with_digest(spec.image, local, spec.digest)
        return None if self._is_of_a_registry(spec.image, mirror, local) else _image(spec.image, local)

    def _is_of_a_registry(self, image: str, mirror: str | None, local: dict[str, Any]) -> bool:
        if not _digests(local):
            return False
        with engine_failures():
            if self._uses.is_pulled(local["Id"]) or not keeps_in_containerd(self._client):
                return True
        return self._uses.ask_once(local["Id"], image) and self._is_confirmed(image, mirror, local)

    def _is_confirmed(self, image: str, mirror: str | None, local: dict[str, Any]) -> bool:
        """Whether a registry has this very image by this name; a different image under its name may be anybody's."""
        for name in filter(None, (mirror, image)):
            with suppress(AttemptFailed):
                if self._remote_digest(name, None) in _digests(local):
                    self._uses.note_pulled(local["Id"])
                    return True
        return False

    def _note_pulled(self, reference: str) -> None:
        if (here := self._local(reference)) is not None:
            self._uses.note_pulled(here["Id"])

    def _is_private(self, local: dict[str, Any]) -> bool:
        return self._uses.is_private(local["Id"], has_digest=bool(_digests(local)))

    def _is_public(self, name: str) -> bool:
        """Whether its registry gives it to everybody: without a login it may be used only then."""
        try:
            self._remote_digest(name, None)
        except AttemptFailed:
            return False
        return True

    def _fetched(
        self,
        spec: ContainerSpec,
        wanted: str | None,
        mirror: str | None,
        progress: Callable[[Progress], None],
        cancelled: Callable[[], bool],
    ) -> Image:
        """Pulls from the mirror, else from the registry: the same digest."""
        if mirror is not None and wanted is not None:
            try:
                self._pull(_pinned(mirror, wanted), None, progress, cancelled)
            except AttemptFailed as failed:
                log.info("the mirror does not give it", image=spec.image, mirror=mirror, why=failed.message)
            else:
                reference = _pinned(mirror, wanted)
                self._name(spec.image, reference)
                self._note_pulled(reference)
                return Image(digest=wanted, reference=reference)
        self._pull(_pinned(spec.image, wanted), None, progress, cancelled)
        return self._after_pull(spec, wanted)

    def _name(self, image: str, reference: str) -> None:
        """Tags what was pulled by digest, so that it is found by name while no registry answers."""
        if "@" in image:
            return
        with engine_errors():
            try:
                self._client.tag(reference, *repository_tag(image))
            except APIError as error:
                log.warning("an image has no name", image=image, reference=reference, error=error.explanation)

    def _ordered(self, spec: ContainerSpec, mirror: str | None) -> dict[str, Any] | None:
        """The local image of the ordered digest, whatever the tag means here now."""
        if spec.digest is None:
            return None
        names = [_pinned(spec.image, spec.digest), *([_pinned(mirror, spec.digest)] if mirror else [])]
        found = next((found for name in names if (found := self._named(name)) is not None), None)
        return self._made_here(spec, mirror) if found is None else found

    def _made_here(self, spec: ContainerSpec, mirror: str | None) -> dict[str, Any] | None:
        """The local image whose id is the ordered digest, unless all its names are others: the ordered digest follows
        from what one node reported, and must not choose among all images of another node."""
        if spec.digest is None or _ID.fullmatch(spec.digest) is None or (found := self._local(spec.digest)) is None:
            return None
        names = [*(found.get("RepoDigests") or ()), *(found.get("RepoTags") or ())]
        ours = {_repository(name) for name in (spec.image, mirror) if name is not None}
        named = {_repository(name) for name in names if not name.startswith("<none>")}
        return found if not named or named & ours else None

    def _named(self, image: str) -> dict[str, Any] | None:
        """The local image with this name. The Engine also matches the beginning of an id, which would give a job any
        image on the node, whatever images it may run."""
        found = self._local(image)
        named = [*(found.get("RepoDigests") or ()), *(found.get("RepoTags") or ())] if found else []
        return found if any(_repository(name) == _repository(image) for name in named) else None

    def _after_pull(self, spec: ContainerSpec, wanted: str | None) -> Image:
        local = self._local(_pinned(spec.image, wanted))
        if local is None:
            raise AttemptFailed(Cause.ENGINE_FAULT, wordings.IMAGE_GONE(image=spec.image))
        found = _with_digest(spec.image, local, wanted) or _image(spec.image, local)
        self._uses.note_pulled(local["Id"])
        self._name(spec.image, found.reference)
        return found

    def _digest_now(self, image: str, mirror: str | None, local: dict[str, Any] | None) -> str | None:
        """The tag's digest now, by the mirror or by the registry; None when neither answers. Raises ``AttemptFailed``
        where the registry refuses an image that came from it."""
        for name in filter(None, (mirror, image)):
            try:
                return self._remote_digest(name, None)
            except AttemptFailed as failed:
                refused = name == image and failed.cause is Cause.IMAGE_DENIED
                if refused and local is not None and _came_from(image, local):
                    raise
        return None

    def _local(self, reference: str) -> dict[str, Any] | None:
        with engine_errors():
            try:
                image: dict[str, Any] = self._client.inspect_image(reference)  # type: ignore[no-untyped-call]
            except ImageNotFound:
                return None
            return image

    def _remote_digest(self, image: str, auth: dict[str, str] | None) -> str:
        """The digest that the registry gives now. Raises ``AttemptFailed``."""
        client = self._engine.connect(_REGISTRY_TIMEOUT_S)
        try:
            answer = client.inspect_distribution(image, auth_config=auth or {})  # type: ignore[no-untyped-call]
            return str(answer["Descriptor"]["digest"])
        except (APIError, requests.RequestException) as error:
            text = error.explanation if isinstance(error, APIError) else "the registry did not answer in time"
            raise pull_failure(str(text), image) from error
        finally:
            client.close()

    def _pull(
        self,
        reference: str,
        auth: dict[str, str] | None,
        progress: Callable[[Progress], None],
        cancelled: Callable[[], bool],
    ) -> None:
        done = PullProgress()
        with closing(Pull(self._engine.connect(None), reference, auth)) as pull:
            for event in pull.events(cancelled):
                if "error" in event:
                    raise pull_failure(str(event["error"]), reference)
                percent = done.take(event)
                progress(Progress(code="image", percent=percent, message=f"image {percent} %"))


def registry_of(image: str) -> str:
    """The registry host of an image name; Docker Hub is ``docker.io``."""
    host, _ = resolve_repository_name(parse_repository_tag(image)[0])
    return "docker.io" if host in _HUB else str(host)


def _repository(image: str) -> tuple[str, str]:
    """(registry, path) of an image's name, however it is written."""
    host, path = resolve_repository_name(parse_repository_tag(image.partition("@")[0])[0])
    return ("docker.io", str(path).removeprefix("library/")) if host in _HUB else (str(host), str(path))


def _login(spec: ContainerSpec) -> dict[str, str] | None:
    """The login for the image's registry. It goes to no other host."""
    if spec.auth is None:
        return None
    bound = spec.auth.registry.removeprefix("https://").removeprefix("http://").split("/")[0]
    bound = "docker.io" if bound in _HUB else bound
    if bound != registry_of(spec.image):
        raise AttemptFailed(Cause.INVALID, wordings.OTHER_LOGIN(registry=bound, other=registry_of(spec.image)))
    return {"username": spec.auth.username, "password": spec.auth.password}


def _mirrored(image: str, mirrors: Mapping[str, str]) -> str | None:
    """The image's name at the mirror of its registry; None where there is none."""
    mirror = mirrors.get(registry_of(image))
    if mirror is None:
        return None
    repository, tag = repository_tag(image)
    host, path = resolve_repository_name(repository)
    if host in _HUB and "/" not in path:
        path = f"library/{path}"
    return f"{mirror}/{path}@{tag}" if ":" in tag else f"{mirror}/{path}:{tag}"


def _came_from(image: str, local: dict[str, Any]) -> bool:
    """Whether the local image was pulled by this very name, however it is written."""
    return any(_repository(name) == _repository(image) for name in _digests(local).values())


def _pinned(image: str, digest: str | None) -> str:
    """The name that pulls exactly one digest; the tag where none is known."""
    return image if digest is None else f"{parse_repository_tag(image)[0]}@{digest}"


def _digests(local: dict[str, Any]) -> dict[str, str]:
    """Registry digests of a local image with their names."""
    return {name.partition("@")[2]: name for name in local.get("RepoDigests") or ()}


def _with_digest(image: str, local: dict[str, Any] | None, digest: str | None) -> Image | None:
    if local is None or digest is None:
        return None
    if digest in _digests(local):
        return Image(digest=digest, reference=_digests(local)[digest])
    return Image(digest=digest, reference=digest) if local["Id"] == digest else None


def _mismatch(spec: ContainerSpec, local: dict[str, Any]) -> AttemptFailed:
    here = _image(spec.image, local).digest
    return AttemptFailed(Cause.IMAGE_MISMATCH, wordings.IMAGE_OTHER(image=spec.image, digest=here, other=spec.digest))


def _image(image: str, local: dict[str, Any]) -> Image:
    """A local image by its digest at the registry of its name, else by its id."""
    repository = parse_repository_tag(image)[0]
    named = [(digest, name) for digest, name in _digests(local).items() if name.startswith(f"{repository}@")]
    digest, reference = next(iter(named or _digests(local).items()), (local["Id"], local["Id"]))
    return Image(digest=digest, reference=reference)
