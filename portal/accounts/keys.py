"""Users' public SSH keys, for jobs that run an SSH server."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils.translation import gettext

from portal.accounts.audit import audit_write
from portal.accounts.models import Audited, SshKey, User
from portal.common.errors import Conflict, Fault, Invalid, NotFound
from portal.common.public_keys import LEAST_RSA_BITS, KeyFault, NoPublicKey, PublicKey, public_key_parse

MOST_KEYS = 50


def public_key_read(text: str) -> PublicKey:
    """Parses a line of ``authorized_keys`` or a ``.pub`` file. Raises Invalid for anything else: options, several
    lines, a private key."""
    try:
        return public_key_parse(text)
    except NoPublicKey as none:
        raise _refused(_why(none)) from None


def _why(none: NoPublicKey) -> str:
    if none.fault is KeyFault.PRIVATE:
        return gettext("this is a private key: keep it to yourself, and give the file that ends with .pub")
    if none.fault is KeyFault.NO_LINE:
        return gettext("one line is wanted, such as ssh-ed25519 AAAA… alice@laptop")
    if none.fault is KeyFault.KIND:
        return gettext("keys of the kind %(kind)s are not taken; make one with ssh-keygen -t ed25519") % {
            "kind": none.kind
        }
    if none.fault is KeyFault.SHORT:
        return gettext("an RSA key of %(key_size)s bits is too short; %(least_rsa_bits)s are the least") % {
            "key_size": none.bits,
            "least_rsa_bits": LEAST_RSA_BITS,
        }
    return gettext("this is not a public SSH key; it is the content of a file that ends with .pub")


def _refused(message: str) -> Invalid:
    return Invalid([Fault("public", message, "invalid")])


def ssh_keys_of(*, user: User) -> QuerySet[SshKey]:
    """The user's keys, by name."""
    return SshKey.objects.filter(user=user)


def ssh_lines(*, users: Collection[int]) -> dict[int, list[str]]:
    """These users' keys, newest first, by user id. One query."""
    found: dict[int, list[str]] = {}
    keys = SshKey.objects.filter(user__in=users).order_by("-id")
    for user, line in keys.values_list("user", "public"):
        found.setdefault(user, []).append(line)
    return found


def ssh_key_get(*, user: User, key_id: int) -> SshKey:
    """A key of the user. Raises NotFound."""
    key = ssh_keys_of(user=user).filter(pk=key_id).first()
    if key is None:
        raise NotFound("SSH key", key_id)
    return key


def ssh_key_add(*, user: User, name: str, public: str, now: datetime) -> SshKey:
    """Stores a public key; its name defaults to its comment. Raises Invalid if it is none, Conflict if the user has it
    already or has too many."""
    read = public_key_read(public)
    if SshKey.objects.filter(user=user).count() >= MOST_KEYS:
        raise Conflict(
            gettext("%(most_keys)s keys are stored, and there can be no more; forget one first.")
            % {"most_keys": MOST_KEYS}
        )
    try:
        with transaction.atomic():
            key = SshKey.objects.create(
                user=user, name=(name or read.comment or read.kind)[:100], kind=read.kind, public=read.line,
                fingerprint=read.fingerprint, created_at=now,
            )  # fmt: skip
            audit_write(Audited.SSH_KEY, actor=user.username, target=user.username, now=now, after=_told(key))
    except IntegrityError:
        raise Conflict(gettext("You have added this key already.")) from None
    return key


def ssh_key_remove(*, key: SshKey, now: datetime) -> None:
    """Deletes a key; idempotent."""
    with transaction.atomic():
        if SshKey.objects.filter(pk=key.pk).delete()[0]:
            name = key.user.username
            audit_write(Audited.SSH_KEY, actor=name, target=name, now=now, before=_told(key))


def _told(key: SshKey) -> dict[str, str]:
    return {"name": key.name, "fingerprint": key.fingerprint}
