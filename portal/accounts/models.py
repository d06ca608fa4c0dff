"""Users, their tokens and SSH keys, and the audit log. Groups are Django's own."""

from __future__ import annotations

import hashlib
from typing import Any

from django.contrib.auth.models import AbstractUser, Group
from django.core.validators import MinValueValidator, RegexValidator
from django.db import models
from django.utils.translation import gettext_lazy as _

from portal.accounts.addresses import PRINTABLE
from portal.accounts.differences import Difference, differences


class ClusterRole(models.TextChoices):
    """A user's role in the whole cluster; roles in a virtual cluster are in its memberships."""

    USER = "user", _("User")
    AUDITOR = "auditor", _("Auditor")
    ADMIN = "admin", _("Administrator")


class User(AbstractUser):
    """An account. Its containers run with ``uid`` and ``gid``, which own its files on storages; never 0."""

    username = models.CharField(
        max_length=64,
        unique=True,
        validators=[
            # Job folders are below one of this name: "." and ".." would be other users' folders.
            RegexValidator(r"^(?!\.{1,2}\Z)[A-Za-z0-9_.-]+\Z", _("Letters, digits, dot, dash and underscore only."))
        ],
    )
    email = models.EmailField(_("E-mail"), blank=True, validators=[PRINTABLE])
    role = models.CharField(max_length=10, choices=ClusterRole.choices, default=ClusterRole.USER)
    uid = models.PositiveIntegerField(null=True, blank=True, unique=True, validators=[MinValueValidator(1)])
    gid = models.PositiveIntegerField(null=True, blank=True, validators=[MinValueValidator(1)])
    extra_gids = models.JSONField(default=list, blank=True)
    language = models.CharField(
        max_length=10, blank=True, default="", db_default="", help_text="of the pages; empty: as the browser asks"
    )

    class Meta:
        constraints = [
            models.CheckConstraint(condition=~models.Q(uid=0) & ~models.Q(gid=0), name="user_never_root"),
        ]

    @property
    def is_cluster_admin(self) -> bool:
        """Whether the user is an active administrator of the cluster."""
        return self.is_active and self.role == ClusterRole.ADMIN


class GroupNote(models.Model):
    """The description of a group (Django's own)."""

    group = models.OneToOneField(Group, on_delete=models.CASCADE, related_name="note")
    description = models.TextField(blank=True)

    def __str__(self) -> str:
        return str(self.group_id)


class Scope(models.TextChoices):
    """What a token may be used for; each scope includes the ones before it."""

    READ = "read", _("Read")
    SUBMIT = "submit", _("Submit and stop jobs")
    ADMIN = "admin", _("Everything its owner may do")

    def covers(self, needed: Scope) -> bool:
        """Whether a token of this scope suffices where ``needed`` is required."""
        order = list(Scope)
        return order.index(self) >= order.index(needed)


class Token(models.Model):
    """A bearer token. Only its hash is stored; ``prefix`` lets its owner recognise it."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=12)
    digest = models.CharField(max_length=64, unique=True)
    scope = models.CharField(max_length=10, choices=Scope.choices, default=Scope.SUBMIT)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.prefix}… of {self.user_id}"

    @staticmethod
    def digest_of(secret: str) -> str:
        """The stored hash of a token: SHA-256 in hex. Its 256 random bits need no salt."""
        return hashlib.sha256(secret.encode()).hexdigest()


class Identity(models.Model):
    """An account's identity at a sign-in provider: the ``subject`` there, which never changes and is never reassigned.

    ``given``: what the provider's groups granted at the last sign-in: ``role`` (in the cluster, and the one ``below``
    it that was set by hand), ``groups`` (their ids) and ``memberships`` (their ids with the role). What was changed by
    hand since is no longer the provider's.
    """

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="identities")
    issuer = models.CharField(max_length=500)
    subject = models.CharField(max_length=255)
    given = models.JSONField(default=dict, blank=True)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["issuer", "subject"], name="identity_once"),
            models.UniqueConstraint(fields=["user", "issuer"], name="identity_of_user_once"),
        ]

    def __str__(self) -> str:
        return f"{self.subject} at {self.issuer}"


class FirstCode(models.Model):
    """A code to create the first administrator. Each web process that finds none makes its own; only the hash is
    stored."""

    digest = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"made at {self.created_at}"


class SshKey(models.Model):
    """A public SSH key: ``public`` is its line without the comment, ``fingerprint`` as OpenSSH shows it."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="ssh_keys")
    name = models.CharField(max_length=100)
    kind = models.CharField(max_length=64)
    public = models.TextField()
    fingerprint = models.CharField(max_length=64)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["user", "fingerprint"], name="ssh_key_once")]

    def __str__(self) -> str:
        return self.fingerprint


class Audited(models.TextChoices):
    """The actions in the audit log."""

    SIGN_IN = "sign_in", _("Signed in")
    SIGN_IN_REFUSED = "sign_in.refused", _("Could not sign in")
    PASSWORD = "user.password", _("Changed a password")  # noqa: S105  # no password
    PASSWORD_LINK = "user.password_link", _("Made a link for a new password")  # noqa: S105
    IDENTITY = "user.identity", _("Tied an account to a sign-in provider, or loosened it")
    USER_CREATE = "user.create", _("Made an account")
    USER_CHANGE = "user.change", _("Changed an account")
    USER_REMOVE = "user.remove", _("Removed an account")
    GROUP = "group", _("Made, changed or removed a group, or changed who is in it")
    TOKEN_CREATE = "token.create", _("Made a token")  # noqa: S105
    TOKEN_REVOKE = "token.revoke", _("Revoked a token")  # noqa: S105
    TOKEN_USE = "token.use", _("Used a token, the first time of a day")  # noqa: S105
    SSH_KEY = "ssh_key", _("Stored or forgot an SSH key")
    VC_CREATE = "vc.create", _("Made a virtual cluster")
    VC_REMOVE = "vc.remove", _("Removed a virtual cluster")
    VC_RULES = "vc.rules", _("Changed a virtual cluster's rules")
    VC_LIMITS = "vc.limits", _("Changed a virtual cluster's limits of lending")
    VC_MEMBER = "vc.member", _("Changed who is in a virtual cluster")
    FIRM_RIGHT = "vc.firm_right", _("Changed a right to jobs that are not preempted")
    QUOTA = "quota.set", _("Changed quotas")
    QUOTA_CHANGE = "quota_change", _("Planned or withdrew a change of quotas")
    CLUSTER = "cluster.import", _("Replaced the cluster's configuration")
    SKU_PRICE = "sku.price", _("Set the price of a hardware kind")
    SKU_SHARE = "sku.share", _("Set what CPU and memory go with a hardware kind")
    NODE_ADD = "node.add", _("Registered a node")
    JOIN_TOKEN = "join_token", _("Made, used or revoked a token by which servers join")  # noqa: S105  # no password
    NODE_KEY = "node.key", _("Made a new key for a node")
    NODE_ACCEPT = "node.accept", _("Accepted a node, or more of what it claims")
    STORAGE_TIE = "storage.tie", _("Tied a server to a storage, or untied it")
    NODE_CPU_TASKS = "node.cpu_tasks", _("Said whether tasks without GPUs may run on a node")
    NODE_INTENT = "node.intent", _("Opened, cordoned or drained a node")
    NODE_PUT_BACK = "node.put_back", _("Put a node, or GPUs of it, back after a fault")
    NODE_GIVE_UP = "node.give_up", _("Gave up a node that is silent")
    NODE_REMOVE = "node.remove", _("Removed a node")
    NODE_CONTAINER = "node.container", _("Stopped an unknown container")
    NODE_TOPOLOGY = "node.topology", _("Accepted a node's topology")
    STORAGE = "storage", _("Made, changed or removed a storage, or changed who may use it")
    IMAGES = "images", _("Changed which images jobs may run")
    TEMPLATE = "template", _("Made, changed or removed a job template")
    SECRET = "secret", _("Stored or forgot a secret or a registry log-in")  # noqa: S105
    JOB_SUBMIT = "job.submit", _("Submitted a job")
    JOB_STOP = "job.stop", _("Stopped a job")
    JOB_PAUSE = "job.pause", _("Paused a job")
    JOB_PARK = "job.park", _("Parked a job")
    JOB_RESUME = "job.resume", _("Resumed a job")
    JOB_MOVE = "job.move", _("Moved a job to another virtual cluster")
    JOB_TAG = "job.tag", _("Gave a job a tag or took one off")
    JOB_PRIORITY = "job.priority", _("Gave a job another priority class")
    JOB_ORDER = "job.order", _("Gave a waiting job another place in the queue")
    IDLE_POLICY = "idle.policy", _("Set what becomes of jobs whose GPUs do nothing")
    IDLE_EXEMPTION = "idle.exemption", _("Excepted jobs from the idle policy, or no longer")
    IDLE_EXTEND = "idle.extend", _("Put off what the idle policy does to a job")
    LOG_READ = "log.read", _("Read another's log")
    CODE_UPLOAD = "code.upload", _("Uploaded a folder of code")
    CODE_FORGET = "code.forget", _("Took back an uploaded folder of code")
    CODE_READ = "code.read", _("Downloaded another's code")
    FILES_READ = "files.read", _("Read another's files")
    SHELL = "job.shell", _("Opened a shell in a job")
    NOTICES = "notices", _("Chose what to be told of by e-mail")
    ALERT_SILENCE = "alert.silence", _("Silenced an alert, or no longer")
    WEBHOOK = "webhook", _("Set, tested or removed the webhook")


def audited_choices() -> list[tuple[str, Any]]:
    """The audited actions; passed as a callable, so that a new one needs no migration."""
    return Audited.choices


class AuditEntry(models.Model):
    """An audit entry: who did what, when, to what, from where. Names are copied: entries outlive what they name."""

    at = models.DateTimeField()
    actor = models.CharField(max_length=64, blank=True, help_text="user name; empty: the portal itself")
    via = models.CharField(max_length=32, help_text="web, a token, a socket, or system")
    address = models.GenericIPAddressField(null=True)
    action = models.CharField(max_length=20, choices=audited_choices)
    target = models.CharField(max_length=255)
    vc = models.CharField(max_length=64, blank=True)
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["actor", "action", "target", "at"], name="audit_by_actor"),
            models.Index(fields=["target", "id"], name="audit_by_target"),
        ]

    def __str__(self) -> str:
        return f"{self.actor or 'portal'} {self.action} {self.target}"

    @property
    def changed(self) -> list[str]:
        """The names of the changed values."""
        return list({**(self.before or {}), **(self.after or {})})

    @property
    def changes(self) -> list[Difference]:
        """The differences, down to single values; the first hundred."""
        return differences(self.before, self.after)
