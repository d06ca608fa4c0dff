"""Whose fault an error of Docker is. The texts are those that Engines and registries gave."""

from __future__ import annotations

import pytest
import requests
from docker.errors import APIError, DockerException

from nodes.agent.runtimes.base import RuntimeUnavailable
from nodes.agent.runtimes.docker.faults import engine_errors, failure_of, limit_refused, pull_failure, sent_in_vain
from nodes.protocol.states import NODE_FAULTS, Cause


def error(status: int, text: str) -> APIError:
    response = requests.Response()
    response.status_code = status
    return APIError("error", response=response, explanation=text)


@pytest.mark.parametrize(
    ("status", "text", "cause"),
    [
        (500, 'could not select device driver "cdi" with capabilities: []', Cause.DEVICE_FAULT),
        (500, "CDI device injection failed: unresolvable CDI devices nvidia.com/gpu=GPU-1", Cause.DEVICE_FAULT),
        (500, "error running hook #0: nvidia-container-cli: device error: unknown device id", Cause.DEVICE_FAULT),
        (500, "write /var/lib/docker/tmp: no space left on device", Cause.NO_SPACE),
        (500, "driver failed programming external connectivity: Bind for 0.0.0.0:20001 failed: "
              "port is already allocated", Cause.PORT_TAKEN),
        (400, 'invalid mount config for type "bind": bind source path does not exist: /mnt/x', Cause.STORAGE_MISSING),
        (400, 'OCI runtime create failed: exec: "/bin/sh": stat /bin/sh: no such file or directory', Cause.INVALID),
        (400, "OCI runtime create failed: exec format error: unknown", Cause.IMAGE_PLATFORM),
        (400, "invalid CPU set", Cause.INVALID),
        (404, "No such image: sha256:1", Cause.ENGINE_FAULT),
        (500, "something else broke", Cause.ENGINE_FAULT),
    ],
)  # fmt: skip
def test_an_error_of_create_or_start_has_its_cause(status: int, text: str, cause: Cause) -> None:
    failed = failure_of(error(status, text))
    assert failed.cause is cause
    assert failed.message


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("unauthorized: authentication required", Cause.IMAGE_DENIED),
        ("Get https://r.example/v2/: denied: requested access to the resource is denied", Cause.IMAGE_DENIED),
        (
            "pull access denied for nowhere, repository does not exist or may require 'docker login'",
            Cause.IMAGE_DENIED,
        ),
        ("manifest for busybox:9 not found: manifest unknown", Cause.IMAGE_MISSING),
        ("error parsing HTTP 404 response body: invalid character '<'", Cause.IMAGE_MISSING),
        ("no matching manifest for linux/amd64 in the manifest list entries", Cause.IMAGE_PLATFORM),
        ("toomanyrequests: You have reached your pull rate limit.", Cause.IMAGE_AWAY),
        ("received unexpected HTTP status: 503 Service Unavailable", Cause.IMAGE_AWAY),
        ("error parsing HTTP 429 response body: <title>Not found, access denied</title>", Cause.IMAGE_AWAY),
        ("unexpected status from GET request to https://r.example/v2/x/manifests/1: 502 Bad Gateway", Cause.IMAGE_AWAY),
        ("dial tcp: lookup registry.example: no such host", Cause.IMAGE_AWAY),
        ("lookup registry.example: Temporary failure in name resolution", Cause.IMAGE_AWAY),
        ("dial tcp 10.0.0.1:443: connect: connection refused", Cause.IMAGE_AWAY),
        ("the registry did not answer in time", Cause.IMAGE_AWAY),
        ("net/http: TLS handshake timeout", Cause.IMAGE_AWAY),
        ("unexpected EOF", Cause.IMAGE_AWAY),
        ("write /var/lib/docker/tmp/x: no space left on device", Cause.NO_SPACE),
    ],
)
def test_a_registrys_refusal_has_its_cause(text: str, cause: Cause) -> None:
    assert pull_failure(text, "busybox:9").cause is cause


@pytest.mark.parametrize(
    "text",
    [
        "error parsing HTTP 404 response body: invalid character 'I' looking for beginning of value: \"INTERNAL\\n\"",
        'error parsing HTTP 404 response body: no error details found in HTTP response body: "{INTERNAL}"',
        'error parsing HTTP 429 response body: "\nINTERNAL\n"',
        'Get "http://127.0.0.1:22/v2/": HTTP/1.x transport connection broken: malformed HTTP response "INTERNAL"',
        'Get "http://127.0.0.1:22/v2/": malformed HTTP status code "INTERNAL"',
        'Get "http://127.0.0.1:22/v2/": net/http: malformed MIME header line: INTERNAL',
        "Head \"http://127.0.0.1/\": unable to decode token response: invalid character 'I' in INTERNAL",
    ],
)
def test_what_is_no_registry_is_shown_to_nobody(text: str) -> None:
    message = pull_failure(text, "127.0.0.1:22/x:1").message
    assert "127.0.0.1:22/x:1" in message
    assert "INTERNAL" not in message
    assert "'I'" not in message


def test_a_full_disk_and_a_missing_driver_are_the_nodes_fault_and_a_bad_command_is_not() -> None:
    assert {Cause.NO_SPACE, Cause.DEVICE_FAULT, Cause.PORT_TAKEN} <= NODE_FAULTS
    assert not {Cause.INVALID, Cause.IMAGE_MISSING, Cause.IMAGE_DENIED} & NODE_FAULTS


@pytest.mark.parametrize(
    "raised",
    [requests.ConnectionError("refused"), requests.ReadTimeout("slow"), DockerException("no socket"), OSError(2, "x")],
)
def test_an_engine_that_does_not_answer_fails_no_task(raised: Exception) -> None:
    with pytest.raises(RuntimeUnavailable), engine_errors():
        raise raised


def test_a_long_error_is_cut_to_one_line() -> None:
    message = failure_of(error(500, "broken\n" * 500)).message
    assert "\n" not in message
    assert len(message) <= 300


def test_only_a_refused_limit_counts_as_one() -> None:
    assert limit_refused(error(500, "error setting rlimit type 8: operation not permitted"))
    assert not limit_refused(error(500, "no such file"))


def test_a_kill_that_the_engine_sent_in_vain_is_none_that_it_could_not_send() -> None:
    text = "Cannot kill container: 1b: tried to kill container, but did not receive an exit event"
    assert sent_in_vain(error(500, text))
    assert not sent_in_vain(error(500, "Cannot kill container: 1b: connection error: transport is closing"))
