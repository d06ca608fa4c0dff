"""Settings: from flags, variables and files; a bad one is one sentence with its name."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import fields
from pathlib import Path

import pytest

from nodes.__main__ import main
from nodes.agent.config.options import OptionInvalid, Options, key_load, key_make, options_load
from nodes.protocol.envelope import PortalKey

SETTINGS = Path(__file__).parents[3] / "docs" / "admin" / "settings.md"
LEAST = {
    "BERTH_NODE_NAME": "gpu01",
    "BERTH_NODE_REDIS_URL": "redis://127.0.0.1:6379/0",
    "BERTH_NODE_PORTAL_PUBLIC_KEY": PortalKey.generate().public,
}


def test_defaults_suit_a_server_with_docker() -> None:
    options = options_load([], LEAST)
    assert (options.runtime, options.gpus, options.port_range) == ("docker", "auto", (20000, 29999))
    assert options.key_path == Path("/var/lib/berth-node/node.key")
    assert (options.mount_roots, options.policy_file) == ((), None)


def test_the_help_names_each_choice_and_each_default(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        options_load(["--help"], {})
    told = " ".join(capsys.readouterr().out.split())
    for one in fields(Options):
        metadata = one.metadata
        (said,) = re.findall(rf" --{one.name.replace('_', '-')} VALUE (.*?)(?= --|$)", told)
        assert not metadata["default"] or f"(default: {metadata['default']})" in said, said
    for variable in ("runtime", "disk_clean", "log_level"):
        with pytest.raises(OptionInvalid, match="is none of") as refused:
            options_load([f"--{variable.replace('_', '-')}", "?"], LEAST)
        choices = str(refused.value).partition("is none of ")[2].split(", ")
        (said,) = re.findall(rf" --{variable.replace('_', '-')} VALUE (.*?)(?= --|$)", told)
        assert all(choice in said for choice in choices), said
    assert "off (none), pulled (those that a registry has, too) or all (default: pulled)" in told


def test_a_flag_wins_over_a_variable() -> None:
    assert options_load(["--name", "gpu02"], LEAST).name == "gpu02"


def test_a_secret_may_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "url"
    file.write_text("redis://:secret@127.0.0.1/1\n")
    environ = {**LEAST, "BERTH_NODE_REDIS_URL_FILE": str(file)}
    del environ["BERTH_NODE_REDIS_URL"]
    assert options_load([], environ).redis_url == "redis://:secret@127.0.0.1/1"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NAME", "GPU 01"),
        ("NAME", "../x"),
        ("RUNTIME", "podman"),
        ("PORT_RANGE", "20000"),
        ("PORT_RANGE", "30000-20000"),
        ("PORT_RANGE", "80-90"),
        ("ADDRESS", "gpu01"),
        ("LOG_SPOOL_GB", "0"),
        ("LOG_SPOOL_GB", "1.5"),
        ("LOG_LEVEL", "loud"),
        ("PORTAL_PUBLIC_KEY", ""),
        ("PORTAL_PUBLIC_KEY", "none"),
        ("PORTAL_PUBLIC_KEY", "A" * 42 + "=="),
        ("PORTAL_PUBLIC_KEY", "ä" * 44),
        ("SIMULATED_CPUS", "many"),
        ("SIMULATED_MEMORY_GB", "-1"),
    ],
)
def test_a_bad_value_is_named(name: str, value: str) -> None:
    with pytest.raises(OptionInvalid) as invalid:
        options_load([], {**LEAST, f"BERTH_NODE_{name}": value})
    assert invalid.value.name == f"BERTH_NODE_{name}"


def test_a_portals_key_that_is_none_stops_the_start_with_the_cure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in (LEAST | {"BERTH_NODE_PORTAL_PUBLIC_KEY": "none"}).items():
        monkeypatch.setenv(name, value)
    assert main([]) == 2
    assert capsys.readouterr().err == (
        "berth-node: BERTH_NODE_PORTAL_PUBLIC_KEY: 'none' is no key of a portal (44 characters of base64): take what "
        "manage.py portal_key prints there, or join again (berth-node join URL TOKEN)\n"
    )


SECONDS = {
    "LEASE_STILL_S": ("1", "3600"),
    "REPORT_EVERY_S": ("0.1", "20"),
    "DISK_EVERY_S": ("0.1", "3600"),
    "LISTENERS_EVERY_S": ("0", "86400"),
    "LAYER_GRACE_S": ("0", "86400"),
    "FOREIGN_AFTER_S": ("1", "86400"),
}


@pytest.mark.parametrize("name", SECONDS)
def test_times_have_bounds_that_the_refusal_and_the_help_name(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    least, most = SECONDS[name]
    for value in (least, most):
        assert getattr(options_load([], {**LEAST, f"BERTH_NODE_{name}": value}), name.lower()) == float(value)
    for value in (str(float(least) - 0.01), str(float(most) + 0.01), "soon", "nan", "inf", ""):
        with pytest.raises(OptionInvalid) as invalid:
            options_load([], {**LEAST, f"BERTH_NODE_{name}": value})
        assert str(invalid.value) == f"BERTH_NODE_{name}: {value!r} is no number of seconds from {least} to {most}"
    with pytest.raises(SystemExit):
        options_load(["--help"], {})
    told = " ".join(capsys.readouterr().out.split())
    (said,) = re.findall(rf" --{name.lower().replace('_', '-')} VALUE (.*?)(?= --|$)", told)
    assert f"; from {least} to {most} (default: " in said
    (row,) = [line for line in SETTINGS.read_text().splitlines() if line.startswith(f"| `BERTH_NODE_{name}` |")]
    assert f"from {least} to {most}" in row


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("PORTAL_URL", "berth.example.org", "it must begin with http:// or https://"),
        ("PORTAL_URL", "https://berth.example.org:99999", "its port is no number from 1 to 65535"),
        ("PORTAL_URL", "https://berth.example.org:abc", "its port is no number from 1 to 65535"),
        ("PORTAL_URL", "https://[::1", "its host is neither a name nor an address"),
        ("PORTAL_URL", "https:///login", "it names no host"),
        ("DOCKER_URL", "tcp://127.0.0.1:99999", "its port is no number from 1 to 65535"),
        ("DOCKER_URL", "tcp://127.0.0.1:0", "its port is no number from 1 to 65535"),
        ("DOCKER_URL", "unix://var/run/docker.sock", "it must name a file from / on"),
        ("DOCKER_URL", "/var/run/docker.sock", "it must begin with unix://, tcp://, http:// or https://"),
    ],
)
def test_an_address_that_is_none_is_named_with_what_is_wrong_of_it(name: str, value: str, why: str) -> None:
    what = "a portal, such as https://berth.example.org" if name == "PORTAL_URL" else "a Docker Engine, such as unix://"
    with pytest.raises(OptionInvalid) as invalid:
        options_load([], {**LEAST, f"BERTH_NODE_{name}": value})
    assert str(invalid.value).startswith(f"BERTH_NODE_{name}: {value!r} is no address of {what}")
    assert invalid.value.reason.endswith(f": {why}")


def test_addresses_are_kept_as_they_are_written() -> None:
    for portal in ("", "https://berth.example.org", "http://[::1]:8000/", "https://no..name"):
        assert options_load([], {**LEAST, "BERTH_NODE_PORTAL_URL": portal}).portal_url == portal
    for engine in ("unix:///run/docker.sock", "http+unix:///run/docker.sock"):
        assert options_load(["--docker-url", engine], LEAST).docker_url == engine


NETWORK = ("tcp://127.0.0.1:2375", "tcp://engine.example.org:2376", "http://[::1]:2375", "https://10.0.0.5:2376")
ANYHOW = "i_accept_that_every_job_can_become_root"


@pytest.mark.parametrize("engine", NETWORK)
def test_an_engine_over_the_network_is_refused_unless_both_sides_have_certificates(engine: str, tmp_path: Path) -> None:
    with pytest.raises(OptionInvalid) as invalid:
        options_load(["--docker-url", engine], LEAST)
    assert invalid.value.name == "BERTH_NODE_DOCKER_URL"
    for word in ("without mutual TLS", "becomes root", "unix:///var/run/docker.sock", "--tlsverify", ANYHOW):
        assert word in invalid.value.reason
    folder = tmp_path / "certificates"
    folder.mkdir()
    for name in ("ca.pem", "cert.pem", "key.pem"):
        with pytest.raises(OptionInvalid, match=f"BERTH_NODE_DOCKER_TLS: {folder} has no .*{name}"):
            options_load(["--docker-url", engine], LEAST | {"BERTH_NODE_DOCKER_TLS": str(folder)})
        (folder / name).touch()
    environ = LEAST | {"BERTH_NODE_DOCKER_TLS": str(folder)}
    if engine.startswith("http:"):
        with pytest.raises(OptionInvalid, match="without mutual TLS"):
            options_load(["--docker-url", engine], environ)
    else:
        assert options_load(["--docker-url", engine], environ).docker_tls == folder


def test_who_insists_on_such_an_engine_says_so_in_so_many_words() -> None:
    told = LEAST | {"BERTH_NODE_DOCKER_URL": "tcp://127.0.0.1:2375"}
    assert options_load([], told | {"BERTH_NODE_DOCKER_WITHOUT_TLS": ANYHOW}).docker_url == "tcp://127.0.0.1:2375"
    for word in ("1", "yes", "true"):
        with pytest.raises(OptionInvalid, match=f"BERTH_NODE_DOCKER_WITHOUT_TLS: '{word}' is not {ANYHOW}"):
            options_load([], told | {"BERTH_NODE_DOCKER_WITHOUT_TLS": word})


def test_an_engine_that_is_not_used_is_not_asked_for_certificates() -> None:
    told = LEAST | {"BERTH_NODE_DOCKER_URL": "tcp://127.0.0.1:2375", "BERTH_NODE_RUNTIME": "process"}
    assert options_load([], told).runtime == "process"


@pytest.mark.parametrize("missing", LEAST)
def test_what_has_no_default_must_be_given(missing: str) -> None:
    with pytest.raises(OptionInvalid, match=missing):
        options_load([], {name: value for name, value in LEAST.items() if name != missing})


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("redis://127.0.0.1:6379/0", True),
        ("redis://localhost/0", True),
        ("redis://[::1]:6379/0", True),
        ("rediss://10.0.0.5:6379/0", False),
        ("rediss://portal.example/0", False),
    ],
)
def test_the_process_runtime_runs_only_beside_its_portal(url: str, allowed: bool) -> None:
    environ = {**LEAST, "BERTH_NODE_REDIS_URL": url, "BERTH_NODE_RUNTIME": "process"}
    if allowed:
        assert options_load([], environ).runtime == "process"
    else:
        with pytest.raises(OptionInvalid, match="BERTH_NODE_RUNTIME"):
            options_load([], environ)


def test_a_key_is_made_once_and_readable_by_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "state" / "node.key"
    first = key_make(path)
    assert key_make(path).public == first.public == key_load(path).public
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_key_that_was_not_made_to_the_end_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    path = tmp_path / "node.key"
    with monkeypatch.context() as disk:
        disk.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            key_make(path)
    assert list(tmp_path.iterdir()) == []
    assert key_make(path).public == key_load(path).public


def test_the_key_command_prints_the_public_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "node.key"
    assert main(["key", "--key-file", str(path)]) == 0
    assert capsys.readouterr().out.strip() == key_load(path).public


def test_a_bad_start_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in os.environ if name.startswith("BERTH_NODE_")]:
        monkeypatch.delenv(name)
    assert main([]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "berth-node: BERTH_NODE_NAME: is not set (the node's name, as the portal knows it); "
        "berth-node join URL TOKEN sets all that is needed"
    ]
