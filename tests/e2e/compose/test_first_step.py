"""The stack's first step: what follows from BERTH_URL, secrets that are made once, certificates, and what is refused
with one sentence."""

from __future__ import annotations

import datetime as dt
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography import x509

from portal.compose.address import Address, address_read
from portal.compose.certificates import (
    AUTHORITY_FOR,
    LEAF_ANEW,
    LEAF_FOR,
    authority_make,
    leaf_is_good,
    leaf_make,
    own_certificate_check,
)
from portal.compose.files import caddyfile, files_make, redis_conf
from portal.compose.refusal import CannotStart
from tests.support.services.disk import full_disk

NOW = dt.datetime(2026, 3, 2, 9, 0, tzinfo=dt.UTC)
PLACE = Path("/run/berth-certificate")
REDIS_HOSTS = ["portal.lan", "redis", "localhost", "127.0.0.1"]


def address(url: str = "https://gpu.example.org", **told: str) -> Address:
    return address_read({"BERTH_URL": url, **told})


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("https://gpu.example.org", "automatic"),
        ("https://berth.lab.internal", "internal"),
        ("https://gpu.lan/", "internal"),
        ("https://portal", "internal"),
        ("https://10.1.2.3", "internal"),
        ("https://[fd00::1]", "internal"),
    ],
)
def test_the_certificate_is_public_where_the_name_is(url: str, kind: str) -> None:
    assert address(url).certificate == kind


def test_the_operator_says_otherwise() -> None:
    assert address(BERTH_CERTIFICATE="internal").certificate == "internal"
    assert address("https://portal", BERTH_CERTIFICATE="files").certificate == "files"


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        ({}, "BERTH_URL is not set"),
        ({"BERTH_URL": "http://gpu.example.org"}, "must be https://"),
        ({"BERTH_URL": "gpu.example.org"}, "must be https://"),
        ({"BERTH_URL": "https://gpu.example.org/berth"}, "must be https://"),
        ({"BERTH_URL": "https://gpu_1.example.org"}, "must be https://"),
        ({"BERTH_URL": "https://a.org\n{ respond }"}, "must be https://"),
        ({"BERTH_URL": "https://root@a.org"}, "must be https://"),
        ({"BERTH_URL": "https://a.org:99999"}, "must be https://"),
        ({"BERTH_URL": "https://a.org:8443"}, "set BERTH_HTTPS_PORT=8443"),
        ({"BERTH_URL": "https://a.org", "BERTH_HTTPS_PORT": "8443"}, "set BERTH_HTTPS_PORT=443"),
        ({"BERTH_URL": "https://a.org", "BERTH_HTTP_PORT": "no"}, "must be a port from 1 to 65535"),
        ({"BERTH_URL": "https://a.org", "BERTH_REDIS_PORT": "443"}, "give each its own"),
        ({"BERTH_URL": "https://a.org", "BERTH_CERTIFICATE": "none"}, "must be one of automatic, internal, files"),
        ({"BERTH_URL": "https://portal", "BERTH_CERTIFICATE": "automatic"}, "no public authority signs portal"),
    ],
)
def test_an_address_that_cannot_be_served_is_refused_with_its_cure(told: dict[str, str], sentence: str) -> None:
    with pytest.raises(CannotStart, match=sentence):
        address_read(told)


# ---------------------------------------------------------------- files


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """To which group each file is given: only root may give to any."""
    given: dict[str, int] = {}
    monkeypatch.setattr(os, "chown", lambda path, uid, gid: given.update({Path(path).name.lstrip("."): gid}))
    return given


def made(folder: Path, *, now: dt.datetime = NOW, url: str = "https://portal.lan") -> dict[str, str]:
    files_make(folder, address=address(url), certificate=PLACE, now=now)
    return {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}


def test_secrets_are_made_once_and_each_service_reads_its_own(tmp_path: Path, groups: dict[str, int]) -> None:
    first = made(tmp_path)
    assert len(first["database-password"]) > 40
    assert first["database-password"] != first["redis-password"]
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    public = {name for name, mode in modes.items() if mode & 0o004}
    assert public == {"Caddyfile", "ca.crt", "portal-ca.crt", "redis.crt"}
    assert not any(mode & 0o022 for mode in modes.values())
    assert groups == {
        "database-password": 10011, "redis-password": 10012, "redis.conf": 10012, "redis.key": 10012, "ca.key": 10013,
    }  # fmt: skip
    assert modes["redis-url"] == modes["redis-nodes-url"] == 0o400
    assert made(tmp_path) == first, "nothing changes with the next start"


def test_another_address_keeps_secrets_and_authority_and_changes_what_follows(
    tmp_path: Path, groups: dict[str, int]
) -> None:
    first, other = made(tmp_path), made(tmp_path, url="https://berth.lan")
    changed = {name for name in first if first[name] != other[name]}
    assert changed == {"Caddyfile", "redis-nodes-url", "redis.crt", "redis.key"}
    assert other["redis-nodes-url"] == "rediss://berth.lan:6380/0\n"


def test_the_portal_tells_servers_its_authority_where_it_is_the_stacks_own(
    tmp_path: Path, groups: dict[str, int]
) -> None:
    own = made(tmp_path)
    assert own["portal-ca.crt"] == own["ca.crt"]
    assert made(tmp_path, url="https://gpu.example.org")["portal-ca.crt"] == ""


def test_what_an_operator_has_put_there_is_used(tmp_path: Path, groups: dict[str, int]) -> None:
    (tmp_path / "redis-password").write_text("p@ss/word\n")
    certificate, key = authority_make(name="our own", now=NOW)
    (tmp_path / "ca.crt").write_text(certificate)
    (tmp_path / "ca.key").write_text(key)
    for own in ("ca.crt", "ca.key", "redis-password"):
        (tmp_path / own).chmod(0o600)
    files = made(tmp_path)
    assert {own: stat.S_IMODE((tmp_path / own).stat().st_mode) for own in ("ca.crt", "ca.key", "redis-password")} == {
        "ca.crt": 0o444, "ca.key": 0o440, "redis-password": 0o440,
    }  # fmt: skip
    assert (groups["ca.key"], groups["redis-password"]) == (10013, 10012)
    assert "rediss://portal:p%40ss%2Fword@redis:6379/0" in files["redis-url"]
    assert "p@ss" not in files["redis.conf"], "Redis needs its digest only"
    issuer = x509.load_pem_x509_certificate(files["redis.crt"].encode()).issuer.rfc4514_string()
    assert issuer == "CN=Berth of our own"


def test_a_new_stack_has_the_authority_of_the_backup_whose_keys_it_got_and_an_operators_goes_before(
    tmp_path: Path, groups: dict[str, int]
) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    first, other = made(tmp_path / "old"), made(tmp_path / "new")
    assert first["ca.crt"] != other["ca.crt"]

    shutil.rmtree(tmp_path / "new" / "keys")
    shutil.copytree(tmp_path / "old" / "keys", tmp_path / "new" / "keys")  # as a restore does
    restored = made(tmp_path / "new")
    assert [restored[name] for name in ("ca.crt", "ca.key")] == [first[name] for name in ("ca.crt", "ca.key")]
    assert leaf_is_good(restored["redis.crt"], authority=first["ca.crt"], hosts=REDIS_HOSTS, now=NOW)
    assert made(tmp_path / "new") == restored

    certificate, key = authority_make(name="our own", now=NOW)
    (tmp_path / "new" / "ca.crt").chmod(0o600)
    (tmp_path / "new" / "ca.key").chmod(0o600)
    (tmp_path / "new" / "ca.crt").write_text(certificate)
    (tmp_path / "new" / "ca.key").write_text(key)
    assert made(tmp_path / "new")["ca.crt"] == certificate
    assert made(tmp_path / "new")["ca.crt"] == certificate
    assert (tmp_path / "new" / "keys" / "ca.crt").read_text() == certificate


def test_the_certificate_of_redis_is_signed_anew_in_time(tmp_path: Path, groups: dict[str, int]) -> None:
    first = made(tmp_path)
    soon = NOW + LEAF_FOR - LEAF_ANEW
    assert made(tmp_path, now=soon - dt.timedelta(days=1)) == first
    later = made(tmp_path, now=soon + dt.timedelta(days=1))
    assert {name for name in first if first[name] != later[name]} == {"redis.crt", "redis.key"}


def test_half_an_authority_and_an_empty_password_are_refused(tmp_path: Path, groups: dict[str, int]) -> None:
    made(tmp_path)
    (tmp_path / "ca.key").unlink()
    with pytest.raises(CannotStart, match=r"ca\.crt is there and ca\.key is not"):
        made(tmp_path)
    (tmp_path / "database-password").chmod(0o600)
    (tmp_path / "database-password").write_text("\n")
    with pytest.raises(CannotStart, match="must hold one line"):
        made(tmp_path)


def test_an_authority_that_is_over_anothers_or_none_is_refused_and_one_of_rsa_is_taken(
    tmp_path: Path, groups: dict[str, int]
) -> None:
    made(tmp_path)
    with pytest.raises(CannotStart, match=r"ca\.crt: expired on 2036-02-28; put a renewed one there"):
        made(tmp_path, now=NOW + AUTHORITY_FOR)
    with pytest.raises(CannotStart, match=r"this server's clock says 2026-03-01 09:00: set it right"):
        made(tmp_path, now=NOW - dt.timedelta(days=1))
    (tmp_path / "ca.key").chmod(0o600)
    (tmp_path / "ca.key").write_text(authority_make(name="other", now=NOW)[1])
    with pytest.raises(CannotStart, match=r"ca\.key does not belong to .*ca\.crt: put the two of one authority there"):
        made(tmp_path)
    for name in ("ca.key", "ca.crt"):
        (tmp_path / name).unlink()
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj", "/CN=our own",
         "-keyout", tmp_path / "ca.key", "-out", tmp_path / "ca.crt"], check=True, capture_output=True,
    )  # fmt: skip
    files = made(tmp_path, now=dt.datetime.now(dt.UTC))
    issuer = x509.load_pem_x509_certificate(files["redis.crt"].encode()).issuer.rfc4514_string()
    assert issuer == "CN=our own"


@pytest.mark.docker  # as root, who may mount
def test_a_full_disk_is_named_with_its_cure(tmp_path: Path) -> None:
    full = r"secrets.*: no room is left on its disk; make room there, or name another by BERTH_SECRETS"
    with full_disk(tmp_path / "secrets") as folder, pytest.raises(CannotStart, match=full):
        made(folder)


def test_a_folder_of_somebody_else_is_named_with_its_cure(tmp_path: Path) -> None:
    with pytest.raises(CannotStart, match=r"chown -R 10001:10001"):
        made(tmp_path / "missing")


def test_the_command_says_one_sentence_and_ends_with_2(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "portal.compose", str(tmp_path)]
    done = subprocess.run(
        command, env={"PATH": os.environ["PATH"]}, cwd=Path(__file__).parents[3], capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("berth: BERTH_URL is not set: write the portal's address into .env")
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


# ---------------------------------------------------------------- what the others are told


def test_redis_speaks_tls_only_and_its_own_account_is_off() -> None:
    lines = redis_conf("secret").splitlines()
    assert {"port 0", "tls-port 6379", "user default off"} < set(lines)
    (account,) = [line for line in lines if line.startswith("user portal")]
    assert account.split()[2:4] == ["on", f"#{'2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b'}"]


def test_the_proxy_serves_the_address_and_signs_only_where_nobody_else_does() -> None:
    public = caddyfile(address(), PLACE, "one")
    assert "https://gpu.example.org {" in public
    assert "pki" not in public
    assert "tls" not in public
    internal = caddyfile(address("https://portal.lan:8443", BERTH_HTTPS_PORT="8443"), PLACE, "one")
    assert "https://portal.lan:8443 {\n\ttls {\n\t\tissuer internal" in internal
    assert "key /run/berth/ca.key" in internal
    own = caddyfile(address(BERTH_CERTIFICATE="files"), PLACE, "one")
    assert "tls /run/berth-certificate/certificate.pem /run/berth-certificate/key.pem" in own
    assert not any("trusted_proxies" in text for text in (public, internal, own))


def test_what_the_proxy_signed_by_one_authority_is_not_shown_where_another_is_known() -> None:
    """Caddy keeps it under the authority's name."""
    internal = address("https://portal.lan")
    one, again, other = (caddyfile(internal, PLACE, authority) for authority in ("one", "one", "other"))
    assert one == again
    names = [set(re.findall(r"\bca (berth-\w+)", text)) for text in (one, other)]
    assert [len(found) for found in names] == [1, 1]
    assert names[0] != names[1]


# ---------------------------------------------------------------- an own certificate


@pytest.fixture
def own(tmp_path: Path) -> Path:
    certificate, key = authority_make(name="the house", now=NOW)
    leaf, leaf_key = leaf_make(authority=certificate, authority_key=key, hosts=["*.example.org", "10.1.2.3"], now=NOW)
    (tmp_path / "certificate.pem").write_text(leaf + certificate)
    (tmp_path / "key.pem").write_text(leaf_key)
    return tmp_path


@pytest.mark.parametrize("host", ["gpu.example.org", "10.1.2.3"])
def test_an_own_certificate_that_fits_is_taken(own: Path, host: str) -> None:
    own_certificate_check(own, host=host, now=NOW)


@pytest.mark.parametrize("host", ["example.org", "a.gpu.example.org", "gpu.example.com", "10.1.2.4"])
def test_one_for_another_name_is_refused(own: Path, host: str) -> None:
    with pytest.raises(CannotStart, match="is not for"):
        own_certificate_check(own, host=host, now=NOW)


def test_one_that_is_over_or_not_yet_valid_is_refused(own: Path) -> None:
    with pytest.raises(CannotStart, match=r"expired on 2029-03-01; put a renewed one there"):
        own_certificate_check(own, host="gpu.example.org", now=NOW + LEAF_FOR)
    with pytest.raises(CannotStart, match="this server's clock says 2026-03-01 09:00: set it right"):
        own_certificate_check(own, host="gpu.example.org", now=NOW - dt.timedelta(days=1))


def test_a_key_of_another_certificate_or_none_is_refused(own: Path) -> None:
    (own / "key.pem").write_text(authority_make(name="other", now=NOW)[1])
    with pytest.raises(CannotStart, match="does not belong"):
        own_certificate_check(own, host="gpu.example.org", now=NOW)
    (own / "key.pem").write_text("no key")
    with pytest.raises(CannotStart, match="holds no private key"):
        own_certificate_check(own, host="gpu.example.org", now=NOW)
    (own / "certificate.pem").unlink()
    with pytest.raises(CannotStart, match="is not there: BERTH_CERTIFICATE=files needs"):
        own_certificate_check(own, host="gpu.example.org", now=NOW)
