"""Public SSH keys of people: on the page, in the API, and what is no key."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from portal.accounts.keys import public_key_read
from portal.accounts.models import AuditEntry, SshKey
from portal.common.errors import Invalid
from tests.support.people.cast import Api, person
from tests.support.people.pages import Browser

ED25519 = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"


def line(key: ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> str:
    return key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def test_a_key_is_known_by_the_fingerprint_that_openssh_shows() -> None:
    found = public_key_read(f"{ED25519} alice@laptop at home\n")
    fingerprint = "SHA256:ZkAslGjFiUHdGf/WUL8rQvkib4PTvQatUV0OUQSncCA"
    assert found == (ED25519, "ssh-ed25519", fingerprint, "alice@laptop at home")
    assert public_key_read(line(ec.generate_private_key(ec.SECP256R1()))).kind == "ecdsa-sha2-nistp256"
    assert public_key_read(line(rsa.generate_private_key(65537, 2048))).kind == "ssh-rsa"


PRIVATE = ed25519.Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (PRIVATE.decode(), "this is a private key"),
        ("ssh-ed25519", "one line is wanted"),
        (f"{ED25519}\n{ED25519}", "one line is wanted"),
        (f'command="rm" {ED25519}', "not taken"),
        ("ssh-ed25519 AAAA", "this is not a public SSH key"),
        ("ssh-ed25519 ????", "this is not a public SSH key"),
        (line(rsa.generate_private_key(65537, 1024)), "1024 bits is too short"),
    ],
)
def test_what_is_no_key_is_refused_in_words(text: str, said: str) -> None:
    with pytest.raises(Invalid, match=said):
        public_key_read(text)


@pytest.mark.django_db
def test_keys_are_stored_listed_and_forgotten_on_the_page() -> None:
    alice = Browser(person("alice"))
    page = alice.send("/profile/ssh-keys", public=f"{ED25519} alice@laptop", name="")
    assert "The key alice@laptop is stored." in page.text
    assert "ssh-ed25519 SHA256:" in page.text
    twice = alice.send("/profile/ssh-keys", public=ED25519, name="again")
    assert (twice.status, "You have added this key already." in twice.text) == (400, True)
    wrong = alice.send("/profile/ssh-keys", public="<script>", name="mine")
    assert (wrong.status, "One line is wanted" in wrong.text, "&lt;script&gt;" in wrong.html) == (400, True, True)
    key = SshKey.objects.get()
    assert Browser(person("bob")).send(f"/profile/ssh-keys/{key.pk}/forget", form="/profile/ssh-keys").status == 404
    alice.send(f"/profile/ssh-keys/{key.pk}/forget", form="/profile/ssh-keys")
    assert not SshKey.objects.exists()
    assert [one.action for one in AuditEntry.objects.order_by("id")] == ["ssh_key", "ssh_key"]


@pytest.mark.django_db
def test_keys_are_stored_listed_and_forgotten_by_the_api() -> None:
    api = Api(person("alice"))
    made = api.call("POST", "me/ssh-keys", {"public": f"{ED25519} laptop"})
    assert (made.status_code, made.json()["name"]) == (201, "laptop")
    assert api.call("POST", "me/ssh-keys", {"public": ED25519}).status_code == 409
    assert api.call("POST", "me/ssh-keys", {"public": "x"}).json()["errors"][0]["path"] == "public"
    other = Api(person("bob"))
    assert (api.names("me/ssh-keys", "name"), other.names("me/ssh-keys", "name")) == (["laptop"], [])
    assert other.call("DELETE", f"me/ssh-keys/{made.json()['id']}").status_code == 404
    assert api.call("DELETE", f"me/ssh-keys/{made.json()['id']}").status_code == 204
