"""Images that a job may run: names as Docker reads them, against shell patterns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from portal.job_file import raw
from portal.job_file.loader import load
from portal.job_file.model import Image, JobSpec
from portal.job_file.problems import Path, Problem, path_text
from portal.job_file.secrets import DOCKER_HUB, registry_of
from portal.job_file.wordings import AND_MORE, IMAGE_REFUSED

LATEST = "latest"
TOLD = 10
"""Maximum number of patterns that a sentence lists."""


def image_allowed(uri: str, patterns: Sequence[str]) -> bool:
    """Whether a pattern matches the image; without patterns all may run. A pattern without a tag matches every tag; an
    image with a digest is named by that, whatever its tag, since Docker pulls it so."""
    return not patterns or any(fnmatchcase(name, pattern) for name in _names(uri) for pattern in patterns)


def image_as_root(uri: str, patterns: Sequence[str] | None) -> bool:
    """Whether these patterns let the image run as root; None: all may."""
    return patterns is None or bool(patterns) and image_allowed(uri, patterns)


def _names(uri: str) -> Iterator[str]:
    """The names of an image: with and without its tag, and for Docker Hub with and without server and ``library/``."""
    server = registry_of(uri)
    named, _, digest = uri.partition("@")
    host, slash, rest = named.partition("/")
    path = rest if slash and host.lower() == server else named
    repository, colon, tag = path.rpartition(":") if ":" in path.rpartition("/")[2] else (path, "", "")
    places = [f"{server}/{repository}"]
    if server == DOCKER_HUB:
        plain = repository.removeprefix("library/")
        places = [plain, f"library/{plain}", f"docker.io/library/{plain}"] if "/" not in plain else [plain]
        places += [f"docker.io/{repository}"]
    for place in places:
        yield place
        yield f"{place}@{digest}" if digest else f"{place}:{tag if colon else LATEST}"


def image_refusal(uri: str, patterns: Sequence[str], vc: str) -> str:
    """Why the image may not run there, and which may."""
    allowed: list[str] | str = list(patterns[:TOLD])
    if more := len(patterns[TOLD:]):
        allowed = AND_MORE(names=allowed, number=more)
    return IMAGE_REFUSED(image=uri, vc=vc, patterns=allowed)


def image_problems(spec: JobSpec, source: str | bytes, patterns: Sequence[str]) -> Iterator[Problem]:
    """Images of the job's roles that match no pattern, at their place in the file."""
    refused = {image.name: image.uri for image in _images(spec) if not image_allowed(image.uri, patterns)}
    if not refused:
        return
    document = load(source)
    for index, item in enumerate(raw.items(document.value.get("prerequisites"))):
        entry = raw.mapping(item)
        if entry.get("type") == "dockerimage" and entry.get("name") in refused:
            path: Path = ("prerequisites", index, "uri")
            message = image_refusal(refused[entry["name"]], patterns, spec.vc)
            yield Problem(path_text(path), message, "image", document.line(path))


def _images(spec: JobSpec) -> Iterator[Image]:
    return (role.image for role in spec.roles)
