"""Settings of the environment: what cannot be used stops the start, with a sentence that names it."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from ipaddress import ip_network
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from django.conf import settings as now
from pytest_django.fixtures import Settings as Changed

from portal.common.checks import data_is_closed, settings_fit, settings_stop
from portal.env.values import BadSetting
from tests.support.cluster.stack import BIN, CELERY

ROOT = Path(__file__).parents[3]

REFUSED = {
    "BERTH_ALLOWED_HOSTS": ["", "https://berth.example.org", "berth.example.org:8000", "[1]", "a b"],
    "BERTH_BACKUP_DAYS": ["-1", "x", "99999999999"],
    "BERTH_CLUSTER": ["", "My lab", "-x"],
    "BERTH_CODE_RATE": ["99999999999999999999/min", "10/year"],
    "BERTH_DATABASE_POOL": ["-1", "1000000000"],
    "BERTH_DATABASE_URL": [
        *("mysql://h/db", " ", "sqlite://berth.sqlite3", "sqlite:///", "sqlite:////tmp/x?mode=ro"),
        *("postgresql://h:port/db", "postgresql://h:99999/db", "postgresql://[::1/db", "postgresql:h/db"),
        *("postgresql://h", "postgresql://h1:1,h2:2/db?port=1,2,3", "postgresql://h/db?sslmode=always"),
        *("postgresql://h/db?pool_size=5", "postgresql://h/db?connect_timeout=soon"),
        *("postgresql://h/db?target_session_attrs=x", "postgresql://h/db?sslmode=verify-full&sslrootcert=/none/ca.pem"),
    ],
    "BERTH_DATA_DIR": ["~nobody-has-this-name/data", "/dev/null"],
    "BERTH_EMAIL_URL": ["smtp://mail..example.org"],
    "BERTH_GPU_RESERVE": ["101"],
    "BERTH_IDLE_PERCENT": ["500"],
    "BERTH_KEYS_DIR": ["/dev/null"],
    "BERTH_LOG_LEVEL": ["LOUD", "10", ""],
    "BERTH_LOG_RETENTION_DAYS": ["0", "99999999999"],
    "BERTH_METRICS_BIND": ["a..b", "127.0.0.1:80", ""],
    "BERTH_METRICS_PORT": ["99999", "-1"],
    "BERTH_OIDC_ISSUER": ["https://[::1", "id.example.org", "https://"],
    "BERTH_OIDC_ROLES": ["[]", '[["a", "admin"]]', "[" * 100_000],
    "BERTH_OIDC_USER_CLAIM": [""],
    "BERTH_PORTAL_KEY": ["abc", "\u00bd", "AAAA"],
    "BERTH_REDIS_URL": [
        *("redis://127.0.0.1:6379/x", "redis://127.0.0.1:6379/0?foo=1", "redis://127.0.0.1:6379/0?socket_timeout=soon"),
        *("redis://127.0.0.1:99999/0", "rediss://:p@a..b:6380/0"),
    ],
    "BERTH_REGISTRY_MIRROR": ["mirror:99999", "a..b"],
    "BERTH_SEALING_KEY": ["zz", "ab", "0" * 63],
    "BERTH_SECRET_KEY": [" "],
    "BERTH_TIME_ZONE": ["Nowhere/None", "../UTC", "Europe", ""],
    "BERTH_TRUSTED_ORIGINS": ["berth.example.org", "https://berth.example.org/x"],
    "BERTH_TRUSTED_PROXIES": ["proxy.example.org", "127.0.0.1/33", "*"],
    "BERTH_URL": [
        *("https://[::1", "https://h:99999", "https://h:port", "https://a b", "https://", "berth.example.org"),
        *("https://h/portal", "https://user:hunter2@h", "ftp://h", ""),
    ],
}  # fmt: skip
TAKEN: dict[str, tuple[str, str, Any]] = {
    "BERTH_ALLOWED_HOSTS": (
        "*, .example.org, [fd00::1]",
        "ALLOWED_HOSTS",
        ["127.0.0.1", "localhost", "[::1]", "*", ".example.org", "[fd00::1]"],
    ),
    "BERTH_LOG_LEVEL": ("debug", "LOG_LEVEL", "DEBUG"),
    "BERTH_METRICS_BIND": ("::1", "METRICS_BIND", "::1"),
    "BERTH_OIDC_ISSUER": (" https://id.example.org/realms/x/ ", "OIDC_ISSUER", "https://id.example.org/realms/x/"),
    "BERTH_PORTAL_KEY": (f"{now.PORTAL_KEY.secret}\n", "PORTAL_KEY", now.PORTAL_KEY),
    "BERTH_SEALING_KEY": ("AB" * 32, "SEALING_KEY", "AB" * 32),
    "BERTH_TIME_ZONE": ("Asia/Shanghai", "TIME_ZONE", "Asia/Shanghai"),
    "BERTH_TRUSTED_ORIGINS": (
        "https://*.example.org/,http://h:8000",
        "CSRF_TRUSTED_ORIGINS",
        ["http://127.0.0.1:8000", "https://*.example.org", "http://h:8000"],
    ),
    "BERTH_TRUSTED_PROXIES": (
        "192.0.2.7, fd00::/8",
        "TRUSTED_PROXIES",
        [ip_network("192.0.2.7"), ip_network("fd00::/8")],
    ),
}


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No setting but a data folder of its own."""
    for name in [name for name in os.environ if name.startswith("BERTH_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("BERTH_DATA_DIR", str(tmp_path / "data"))


def read() -> dict[str, Any]:
    """The settings, read anew."""
    return runpy.run_path(str(ROOT / "portal" / "settings.py"))


@pytest.mark.parametrize("name", REFUSED)
def test_a_value_that_cannot_be_used_stops_the_start_with_its_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for value in REFUSED[name]:
        monkeypatch.setenv(name, value)
        with pytest.raises(BadSetting, match=f"^{name}") as refused:
            read()
        assert str(refused.value).endswith("."), value


@pytest.mark.parametrize("name", TAKEN)
def test_a_value_that_can_be_used_is(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    value, setting, expected = TAKEN[name]
    monkeypatch.setenv(name, value)
    found = read()[setting]
    assert getattr(found, "secret", found) == getattr(expected, "secret", expected)


def refusal(name: str) -> str:
    """What is said where the settings cannot be used as they are; the name where they can."""
    try:
        read()
    except BadSetting as refused:
        return str(refused)
    return name


def test_every_setting_is_tried_with_what_no_setting_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whatever it is, it is taken, or refused with a sentence: a new setting is in this, too."""
    monkeypatch.chdir(tmp_path)  # which some take as the name of a folder
    names = sorted(set(re.findall(r'"(BERTH_\w+)"', (ROOT / "portal" / "settings.py").read_text())))
    assert len(names) > 70
    for name in names:
        for value in ("9" * 20, "https://[::1"):
            with monkeypatch.context() as one:
                one.setenv(name, value)
                assert name in refusal(name)


def test_a_file_that_a_secret_is_in_must_hold_text(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"\xff\xfe")
    monkeypatch.setenv("BERTH_SECRET_KEY_FILE", str(tmp_path / "secret"))
    with pytest.raises(BadSetting, match="BERTH_SECRET_KEY_FILE=.* is no text in UTF-8"):
        read()
    monkeypatch.setenv("BERTH_SECRET_KEY_FILE", str(tmp_path))
    with pytest.raises(BadSetting, match="BERTH_SECRET_KEY_FILE=.* cannot be read"):
        read()


@pytest.mark.parametrize("name", ["django", "portal", "sealing"])
@pytest.mark.parametrize("content", [b"", b"\xff\xfe"])
def test_a_key_file_that_was_damaged_is_named(name: str, content: bytes, tmp_path: Path) -> None:
    read()
    (path := tmp_path / "data" / "keys" / f"{name}.key").write_bytes(content)
    with pytest.raises(BadSetting, match=rf"^{path}: must hold .* Put the key that was there back, from a backup\.$"):
        read()


# ---------------------------------------------------------------- the database's address

MANAGED = (
    "postgresql://berth:p%40ss@db1:5432,db2:5433/portal?sslmode=verify-full&sslrootcert=system"
    "&target_session_attrs=read-write&application_name=berth&options=-c%20search_path%3Dberth&connect_timeout=3"
)


def database(url: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("BERTH_DATABASE_URL", url)
    found: dict[str, Any] = read()["DATABASES"]["default"]
    return found


def test_all_that_libpq_takes_in_an_address_reaches_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found = database(MANAGED, monkeypatch)
    assert [found[key] for key in ("NAME", "USER", "PASSWORD", "HOST", "PORT")] == [
        *("portal", "berth", "p@ss", "db1,db2", "5432,5433")
    ]  # fmt: skip
    assert {key: value for key, value in found["OPTIONS"].items() if isinstance(value, str)} == {
        "sslmode": "verify-full",
        "sslrootcert": "system",
        "target_session_attrs": "read-write",
        "application_name": "berth",
        "options": "-c search_path=berth",
        "connect_timeout": "3",
    }
    monkeypatch.setenv("BERTH_DATABASE_PASSWORD", "pw")
    socket = database("postgresql:///portal?host=/run/postgresql", monkeypatch)
    assert (socket["HOST"], socket["PASSWORD"], socket["OPTIONS"]["connect_timeout"]) == ("/run/postgresql", "pw", 10)
    assert database("postgres://h/db?ssl=true", monkeypatch)["OPTIONS"]["sslmode"] == "require"


def test_no_refusal_tells_the_password(monkeypatch: pytest.MonkeyPatch) -> None:
    for url in ("hunter2%zz@h/db", "hunter2@h:x/db", "hunter2@h/db?sslmode=x", "hunter2@[::1/db", "hunter2@h"):
        with pytest.raises(BadSetting) as refused:
            database(f"postgresql://me:{url}", monkeypatch)
        assert "hunter2" not in str(refused.value)
    with pytest.raises(BadSetting, match=r"knows no parameter 'pool_size'; such as sslmode it does\.$"):
        database("postgresql://h/db?pool_size=5", monkeypatch)


def test_a_data_folder_with_odd_characters_holds_the_database(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BERTH_DATA_DIR", str(tmp_path / "what? 100%#"))
    assert read()["DATABASES"]["default"]["NAME"] == str(tmp_path / "what? 100%#" / "berth.sqlite3")


# ---------------------------------------------------------------- settings that cannot work together


def told(settings: Changed, **changed: Any) -> list[str | None]:
    settings.DATA_DIR.mkdir(parents=True, exist_ok=True)
    for name, value in changed.items():
        setattr(settings, name, value)
    return [one.id for one in settings_fit(None)]


def test_each_mistake_has_an_id_of_its_own(settings: Changed) -> None:
    settings.OIDC_ISSUER, settings.OIDC_CLIENT_ID = "", ""
    assert told(settings) == []
    assert told(settings, OIDC_CLIENT_ID="berth") == ["berth.E004"]
    assert told(settings, OIDC_ISSUER="https://id.example.org", OIDC_SCOPES=["profile"]) == ["berth.E007"]
    assert told(settings, OIDC_SCOPES=["openid"], PASSWORDS=False) == []
    assert told(settings, OIDC_ISSUER="", OIDC_CLIENT_ID="") == ["berth.E006"]
    source = (ROOT / "portal" / "common" / "checks.py").read_text()
    ids = [line.strip() for line in source.splitlines() if line.strip().startswith('id="berth.')]
    assert len(ids) == len(set(ids)) > 10


def test_what_others_on_the_machine_can_read_is_told_of_either_database(
    settings: Changed, monkeypatch: pytest.MonkeyPatch
) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "logs").mkdir(mode=0o755)
        (folder / "berth.sqlite3").touch(mode=0o644)
        settings.DATA_DIR, settings.LOG_DIR = folder, folder / "logs"
        monkeypatch.setitem(settings.DATABASES["default"], "NAME", str(folder / "berth.sqlite3"))

        def told(engine: str) -> list[str]:
            monkeypatch.setitem(settings.DATABASES["default"], "ENGINE", engine)
            return [f"{one.id} {one.msg} {one.hint}" for one in data_is_closed(None)]

        assert told("django.db.backends.sqlite3") == [], "nobody else gets there"
        folder.chmod(0o755)
        close = f"Close the folder to others: chmod o-rwx {folder}"
        logs, both = f"{folder}/logs", f"{folder}/logs and {folder}/berth.sqlite3"
        assert told("django.db.backends.postgresql") == [
            f"berth.W005 Everybody on this machine can read {logs}. {close}"
        ]
        assert told("django.db.backends.sqlite3") == [f"berth.W005 Everybody on this machine can read {both}. {close}"]


def test_the_start_stops_with_a_sentence_for_each_error_and_no_warning(settings: Changed) -> None:
    told(settings, DEBUG=True, HTTPS=True)
    settings_stop()
    told(settings, PASSWORDS=False, OIDC_ISSUER="", OIDC_CLIENT_ID="", DEFAULT_GRACE_S=601, MAX_GRACE_S=600)
    with pytest.raises(SystemExit) as stopped:
        settings_stop()
    assert str(stopped.value) == (
        "berth: BERTH_GRACE_PERIOD (601 s) is longer than BERTH_GRACE_PERIOD_MAX (600 s). Lower the first or raise the "
        "second. (berth.E001)\n"
        "berth: BERTH_PASSWORDS is off and BERTH_OIDC_ISSUER is not set: nobody could log in. Set up a sign-in "
        "provider, or let people log in by password. (berth.E006)"
    )


COMMANDS = {
    "web": [str(BIN / "uvicorn"), "portal.asgi:application", "--port", "0"],
    "worker": [*CELERY, "-Q", "control"],
    "manage.py": [sys.executable, "manage.py", "first_code"],
}
STOPPED = {
    "BERTH_TIME_ZONE='Nowhere/None': must be the name of a time zone": ("web", "worker", "manage.py"),
    "berth: BERTH_PASSWORDS is off and BERTH_OIDC_ISSUER is not set: nobody could log in.": ("web", "worker"),
}


def test_every_process_stops_with_the_sentence_and_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    begun = {}
    for words, names in STOPPED.items():
        bad = {"BERTH_TIME_ZONE": "Nowhere/None"} if "TIME_ZONE" in words else {"BERTH_PASSWORDS": "0"}
        for name in names:
            begun[words, name] = subprocess.Popen(
                COMMANDS[name], cwd=ROOT, env=os.environ | bad, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
                text=True,
            )  # fmt: skip
    for (words, name), process in begun.items():
        said = process.communicate(timeout=120)[1]
        assert (process.returncode, "Traceback" in said) == (1, False), said
        assert said.startswith(words), name
