"""What administrators type on the portal's machine."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.core.management import CommandError, call_command

from nodes.protocol.envelope import NodeKey
from portal.accounts.models import ClusterRole, User
from portal.hardware.models import Node
from portal.hardware.services.redis_accounts import redis_address

pytestmark = pytest.mark.django_db


def command(*words: str) -> str:
    out = StringIO()
    call_command(*words, stdout=out)
    return out.getvalue().strip()


def test_a_server_joins_by_its_key_and_again_by_the_same_key_only() -> None:
    key = NodeKey.generate().public
    told = {command("node_add", "gpu01", "--public-key", key) for _ in range(2)}
    node = Node.objects.get()
    assert told == {
        "sudo sh -c 'umask 077; cat > /etc/berth-node.env' <<'END'\n"
        "BERTH_NODE_NAME=gpu01\nBERTH_NODE_CLUSTER=berth\n"
        f"BERTH_NODE_REDIS_URL={redis_address(node)}\nBERTH_NODE_PORTAL_URL=http://127.0.0.1:8000\n"
        f"BERTH_NODE_PORTAL_PUBLIC_KEY={django_settings.PORTAL_KEY.public}\nEND"
    }
    assert node.public_key == key
    with pytest.raises(CommandError, match="another key"):
        command("node_add", "gpu01", "--public-key", NodeKey.generate().public)


@pytest.mark.parametrize(
    ("name", "key", "complaint"),
    [
        ("../gpu", "", "at most 63"),
        ("GPU_01", "", "Small letters"),
        ("gpu01", "abc", "no key"),
        ("gpu01", "ü" * 44, "no key"),
        ("gpu01", " ", "no key"),
    ],
)
def test_what_is_no_name_or_no_key_is_refused_in_words(name: str, key: str, complaint: str) -> None:
    with pytest.raises(CommandError, match=complaint):
        command("node_add", name, "--public-key", key or NodeKey.generate().public)
    assert not Node.objects.exists()


def test_what_a_server_elsewhere_needs_is_printed_with_it(
    settings: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The authority of Redis's certificate; a word where a shared password belongs; that Redis is out of reach."""
    (tmp_path / "ca.pem").write_text("-----BEGIN CERTIFICATE-----\n")
    settings.REDIS_CA, settings.REDIS_NODES_URL = str(tmp_path / "ca.pem"), "rediss://berth:secret@redis.lab:6380/0"
    settings.REDIS_ACCOUNTS = False
    said = command("node_add", "gpu01", "--public-key", NodeKey.generate().public)
    assert said.startswith(
        "sudo install -d -m 0700 /var/lib/berth-node\nsudo sh -c 'cat > /var/lib/berth-node/redis-ca.pem' <<'END'\n"
        "-----BEGIN CERTIFICATE-----\nEND\n"
    )
    assert "BERTH_NODE_REDIS_URL=rediss://berth:PASSWORD@redis.lab:6380/0\n" in said
    assert "secret" not in said
    assert "where PASSWORD stands" in capsys.readouterr().err
    settings.REDIS_NODES_URL = "redis://127.0.0.1:6379/0"
    command("node_add", "gpu02", "--public-key", NodeKey.generate().public)
    assert "listens on this machine only" in capsys.readouterr().err
    with pytest.raises(CommandError, match="--public-key is empty"):
        command("node_add", "gpu03", "--public-key", "")


def test_the_first_administrator_gets_a_password_that_is_printed_once() -> None:
    password = command("create_admin", "root")
    root = User.objects.get(username="root")
    assert root.check_password(password)
    assert (root.role, root.is_staff) == (ClusterRole.ADMIN, True)
    with pytest.raises(CommandError, match="There is a user root already"):
        command("create_admin", "root")
