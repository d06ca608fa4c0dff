"""What administrators type on the portal's machine."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from nodes.protocol import NodeKey
from portal.accounts.models import ClusterRole, User
from portal.clusters.models import Node

pytestmark = pytest.mark.django_db


def command(*words: str) -> str:
    out = StringIO()
    call_command(*words, stdout=out)
    return out.getvalue().strip()


def test_a_server_joins_by_its_key_and_again_by_the_same_key_only() -> None:
    key = NodeKey.generate().public
    for _ in range(2):
        assert "gpu01" in command("node_add", "gpu01", "--public-key", key)
    assert Node.objects.get().public_key == key
    with pytest.raises(CommandError, match="another key"):
        command("node_add", "gpu01", "--public-key", NodeKey.generate().public)


@pytest.mark.parametrize(
    ("name", "key", "complaint"),
    [("../gpu", "", "name has at most"), ("gpu01", "abc", "no key"), ("gpu01", "ü" * 44, "no key")],
)
def test_what_is_no_name_or_no_key_is_refused_in_words(name: str, key: str, complaint: str) -> None:
    with pytest.raises(CommandError, match=complaint):
        command("node_add", name, "--public-key", key or NodeKey.generate().public)
    assert not Node.objects.exists()


def test_the_first_administrator_gets_a_password_that_is_printed_once() -> None:
    password = command("create_admin", "root")
    root = User.objects.get(username="root")
    assert root.check_password(password)
    assert (root.role, root.is_staff) == (ClusterRole.ADMIN, True)
    with pytest.raises(CommandError, match="There is a user root already"):
        command("create_admin", "root")
