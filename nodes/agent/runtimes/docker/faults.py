"""Meaning of Docker's errors. The Engine gives most of them only as text; each fragment here was observed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import requests
import urllib3
from docker.errors import APIError, DockerException, NotFound

from nodes.agent.runtimes.base import AttemptFailed, RuntimeUnavailable
from nodes.protocol import wordings
from nodes.protocol.connecting import causes_of
from nodes.protocol.states import Cause

_FRAGMENTS: tuple[tuple[str, Cause], ...] = (
    ("no space left on device", Cause.NO_SPACE),
    ("could not select device driver", Cause.DEVICE_FAULT),
    ("cdi device injection failed", Cause.DEVICE_FAULT),
    ("unresolvable cdi devices", Cause.DEVICE_FAULT),
    ("nvidia-container-cli", Cause.DEVICE_FAULT),
    ("nvidia-container-runtime-hook", Cause.DEVICE_FAULT),
    ("error running prestart hook", Cause.DEVICE_FAULT),
    ("error gathering device information", Cause.DEVICE_FAULT),
    ("unknown or invalid runtime name", Cause.ENGINE_FAULT),
    ("port is already allocated", Cause.PORT_TAKEN),
    ("address already in use", Cause.PORT_TAKEN),
    ("bind source path does not exist", Cause.STORAGE_MISSING),
    ("stale file handle", Cause.STORAGE_MISSING),
    ("transport endpoint is not connected", Cause.STORAGE_MISSING),
    ("executable file not found", Cause.INVALID),
    ("exec format error", Cause.IMAGE_PLATFORM),
    ("does not match the specified platform", Cause.IMAGE_PLATFORM),
    ("exec: ", Cause.INVALID),
    ("not a directory", Cause.INVALID),
)

_DENIED = ("unauthorized", "denied", "authentication required", "no basic auth credentials", "forbidden")
_MISSING = ("not found", "manifest unknown", "does not exist", "name unknown", "name invalid", "http 404")
_OTHER_PLATFORM = ("no matching manifest for", "no match for platform", "does not match the specified platform")
_AGAIN = re.compile(
    r"(?:\bhttp |\bstatus(?: code)?:? )(?P<after>429|5\d\d)\b"
    r"|\b(?P<before>429|5\d\d) (?:too many|internal|bad gate|service un|gateway t)|toomanyrequests"
)
"""The registry is there and cannot answer now; a proxy before it may say more below that, such as *not found*."""
_ANSWER = re.compile(
    r"(error parsing http \d+ response body|malformed (?:http|mime) [a-z ]+|unable to decode token response).*",
    re.IGNORECASE | re.DOTALL,
)
"""What a server answered that is no registry, such as one at the loopback: a job names the address, or a registry leads
there, and the Engine reaches more than the job."""


def failure_of(error: APIError) -> AttemptFailed:
    """The failure that an error of create or start means for the task."""
    text = (error.explanation or str(error)).strip()
    lower = text.lower()
    cause = next((cause for fragment, cause in _FRAGMENTS if fragment in lower), None)
    if cause is None:
        cause = Cause.INVALID if error.status_code == 400 else Cause.ENGINE_FAULT
    return AttemptFailed(cause, _sentence(text))


def limit_refused(error: APIError) -> bool:
    """Whether the Engine may not set the requested resource limits."""
    return "error setting rlimit" in (error.explanation or "").lower()


def sent_in_vain(error: APIError) -> bool:
    """Whether the Engine sent SIGKILL and then waited for an end that did not come."""
    return "did not receive an exit event" in (error.explanation or "").lower()


def pull_failure(text: str, image: str) -> AttemptFailed:
    """The failure of a pull: only the registry can say that there is no such image, everything else may pass."""
    lower, told = text.lower(), _sentence(_ANSWER.sub(r"\1", text))
    if "no space left" in lower:
        return AttemptFailed(Cause.NO_SPACE, wordings.NO_SPACE(image=image))
    if (again := _AGAIN.search(lower)) is not None:
        code = again["after"] or again["before"] or "429"
        return AttemptFailed(Cause.IMAGE_AWAY, wordings.REGISTRY_ANSWERS(image=image, code=code, why=told))
    if any(fragment in lower for fragment in _OTHER_PLATFORM):
        return AttemptFailed(Cause.IMAGE_PLATFORM, wordings.OTHER_PROCESSORS(image=image, why=told))
    # Docker's own "pull access denied" too: of what is private a registry may not say whether it is there.
    if any(fragment in lower for fragment in _DENIED):
        return AttemptFailed(Cause.IMAGE_DENIED, wordings.REGISTRY_REFUSED(image=image, why=told))
    if any(fragment in lower for fragment in _MISSING):
        return AttemptFailed(Cause.IMAGE_MISSING, wordings.NO_IMAGE(image=image, why=told))
    return AttemptFailed(Cause.IMAGE_AWAY, wordings.IMAGE_AWAY(image=image, why=told))


class EngineUnavailable(requests.RequestException):
    """The Engine at an address does not answer: what was found, and the cure; together one sentence."""

    def __init__(self, what: str, cure: str) -> None:
        super().__init__(f"{what}: {cure}")
        self.what, self.cure = what, cure


def engine_unavailable(url: str, error: BaseException) -> EngineUnavailable:
    """The meaning of a failed connection to the Engine."""
    for cause in causes_of(error):
        if isinstance(cause, PermissionError):
            cure = "run the agent as root, or in the group of that socket (docker)"
            return EngineUnavailable(f"this agent may not open the Docker Engine's socket at {url}", cure)
        if isinstance(cause, TimeoutError | requests.Timeout):
            cure = "systemctl status docker and journalctl -u docker tell why"
            return EngineUnavailable(f"the Docker Engine at {url} does not answer in time", cure)
    return EngineUnavailable(
        f"no Docker Engine answers at {url}", "systemctl start docker, or correct BERTH_NODE_DOCKER_URL"
    )


@contextmanager
def engine_errors() -> Iterator[None]:
    """Context in which an Engine that does not answer raises ``RuntimeUnavailable``; its own errors pass through."""
    try:
        yield
    except APIError:
        raise
    except EngineUnavailable as away:
        raise RuntimeUnavailable(str(away)) from away
    except (requests.RequestException, urllib3.exceptions.HTTPError, OSError, DockerException) as error:
        raise RuntimeUnavailable(f"the Docker Engine broke its answer off ({type(error).__name__})") from error


@contextmanager
def engine_failures() -> Iterator[None]:
    """Context of calls that fail only by the Engine's own fault; NotFound passes through."""
    with engine_errors():
        try:
            yield
        except NotFound:
            raise
        except APIError as error:
            raise RuntimeUnavailable(f"the Docker Engine failed: {error.explanation}") from error


def _sentence(text: str) -> str:
    """One line of at most 300 characters."""
    line = " ".join(text.split())
    return line if len(line) <= 300 else line[:299] + "…"
