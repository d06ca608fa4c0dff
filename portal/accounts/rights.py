"""The rights table: who may do what. Selectors turn its rows into conditions on querysets."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from portal.accounts.models import ClusterRole, User


class Relation(StrEnum):
    """A user's relation to the cluster, to a virtual cluster (VC), or to a job. A user may have several."""

    ADMIN = "admin"  # administers the cluster
    AUDITOR = "auditor"  # reads all, changes nothing
    LEAD = "lead"  # leads the VC, directly or by a group
    MEMBER = "member"  # is in the VC, directly or by a group
    OWNER = "owner"  # submitted the job
    OTHER = "other"  # signed in, nothing of the above


class Action(StrEnum):
    """Actions that need a right."""

    JOB_READ = "job.read"  # name, command, logs, events: everything but secrets
    JOB_STOP = "job.stop"
    JOB_MOVE = "job.move"  # a waiting one, into another VC
    JOB_PAUSE = "job.pause"  # hold a waiting one back, and let it go on
    JOB_TAG = "job.tag"
    JOB_PRIORITY = "job.priority"  # give it another priority class
    JOB_ORDER = "job.order"  # move a waiting one in the queue: a lead among the team's, an owner among their own
    JOB_FILES = "job.files"  # list and download what lies in its folder
    JOB_SHELL = "job.shell"  # run programs in its tasks
    JOB_SUBMIT = "job.submit"  # into a VC
    VC_ORDER = "vc.order"  # of all that waits in it
    VC_READ = "vc.read"  # quota and usage
    VC_CAP = "vc.cap"  # what one user may hold, and whether jobs borrow by default
    VC_MEMBERS = "vc.members"  # who is in it, in which role
    VC_CONFIGURE = "vc.configure"  # weight, limits of lending, priority classes, rights to jobs that are not preempted
    VC_MAKE = "vc.make"  # and remove
    VC_SECRETS_LIST = "vc.secrets_list"  # their names
    VC_SECRETS_SET = "vc.secrets_set"
    CLUSTER_CONFIGURE = "cluster.configure"  # cells and quotas
    NODE_READ = "node.read"
    NODE_ADD = "node.add"  # and make it a new key
    NODE_SET_INTENT = "node.set_intent"
    NODE_REMOVE = "node.remove"
    AUDIT_READ = "audit.read"
    USAGE_READ = "usage.read"  # GPU hours of a VC, summed over its users
    USAGE_USERS = "usage.users"  # and of each of its users
    WEBHOOK_READ = "webhook.read"  # and what was sent to it
    WEBHOOK_SET = "webhook.set"
    USER_READ = "user.read"  # of leads: the people of their VCs; everybody reads their own account
    USER_MANAGE = "user.manage"  # make, change, disable and remove accounts
    GROUP_READ = "group.read"  # of leads: the groups in their VCs; everybody reads those they are in
    GROUP_MANAGE = "group.manage"
    STORAGE_READ = "storage.read"  # of those who are in a VC: what its jobs may mount; everybody: everybody's
    STORAGE_MANAGE = "storage.manage"
    IMAGES_READ = "images.read"  # which images a VC's jobs may run; the cluster's list is everybody's
    IMAGES_SET = "images.set"
    TEMPLATE_READ = "template.read"  # a VC's job templates; one's own and everybody's are read by whoever they are for
    TEMPLATE_WRITE = "template.write"  # a VC's
    ALERT_READ = "alert.read"  # what is wrong now; of leads: what concerns their VCs
    ALERT_SILENCE = "alert.silence"  # for all who are told of it
    TEMPLATE_PUBLISH = "template.publish"  # write everybody's
    SETTINGS_READ = "settings.read"  # how the portal was set up; never a secret
    IDLE_READ = "idle.read"  # what becomes of a VC's idle jobs; the cluster's policy is everybody's
    IDLE_SET = "idle.set"
    IDLE_EXEMPT = "idle.exempt"  # except jobs of a VC from it
    IDLE_EXTEND = "idle.extend"  # put off what it does to a job, as often as the policy allows


R = Relation
ALLOWED: Mapping[Action, frozenset[Relation]] = {
    Action.JOB_READ: frozenset({R.ADMIN, R.AUDITOR, R.LEAD, R.MEMBER, R.OWNER}),
    Action.JOB_STOP: frozenset({R.ADMIN, R.LEAD, R.OWNER}),
    Action.JOB_MOVE: frozenset({R.ADMIN, R.LEAD, R.OWNER}),
    Action.JOB_PAUSE: frozenset({R.ADMIN, R.LEAD, R.OWNER}),
    Action.JOB_TAG: frozenset({R.ADMIN, R.LEAD, R.OWNER}),
    Action.JOB_PRIORITY: frozenset({R.ADMIN, R.LEAD, R.OWNER}),
    Action.JOB_ORDER: frozenset({R.ADMIN, R.LEAD, R.OWNER}),
    Action.JOB_FILES: frozenset({R.ADMIN, R.AUDITOR, R.LEAD, R.OWNER}),
    Action.JOB_SHELL: frozenset({R.ADMIN, R.OWNER}),
    Action.JOB_SUBMIT: frozenset({R.ADMIN, R.LEAD, R.MEMBER}),
    Action.VC_ORDER: frozenset({R.ADMIN, R.LEAD}),
    Action.VC_READ: frozenset(R),
    Action.VC_CAP: frozenset({R.ADMIN, R.LEAD}),
    Action.VC_MEMBERS: frozenset({R.ADMIN, R.LEAD}),
    Action.VC_CONFIGURE: frozenset({R.ADMIN}),
    Action.VC_MAKE: frozenset({R.ADMIN}),
    Action.VC_SECRETS_LIST: frozenset({R.ADMIN, R.AUDITOR, R.LEAD, R.MEMBER}),
    Action.VC_SECRETS_SET: frozenset({R.ADMIN, R.LEAD}),
    Action.CLUSTER_CONFIGURE: frozenset({R.ADMIN}),
    Action.NODE_READ: frozenset(R),
    Action.NODE_ADD: frozenset({R.ADMIN}),
    Action.NODE_SET_INTENT: frozenset({R.ADMIN}),
    Action.NODE_REMOVE: frozenset({R.ADMIN}),
    Action.AUDIT_READ: frozenset({R.ADMIN, R.AUDITOR}),
    Action.USAGE_READ: frozenset({R.ADMIN, R.AUDITOR, R.LEAD, R.MEMBER, R.OWNER}),
    Action.USAGE_USERS: frozenset({R.ADMIN, R.AUDITOR, R.LEAD, R.OWNER}),
    Action.WEBHOOK_READ: frozenset({R.ADMIN, R.AUDITOR}),
    Action.WEBHOOK_SET: frozenset({R.ADMIN}),
    Action.USER_READ: frozenset({R.ADMIN, R.AUDITOR, R.LEAD}),
    Action.USER_MANAGE: frozenset({R.ADMIN}),
    Action.GROUP_READ: frozenset({R.ADMIN, R.AUDITOR, R.LEAD}),
    Action.GROUP_MANAGE: frozenset({R.ADMIN}),
    Action.STORAGE_READ: frozenset({R.ADMIN, R.AUDITOR, R.LEAD, R.MEMBER}),
    Action.STORAGE_MANAGE: frozenset({R.ADMIN}),
    Action.IMAGES_READ: frozenset({R.ADMIN, R.AUDITOR, R.LEAD, R.MEMBER}),
    Action.IMAGES_SET: frozenset({R.ADMIN}),
    Action.TEMPLATE_READ: frozenset({R.ADMIN, R.AUDITOR, R.LEAD, R.MEMBER}),
    Action.TEMPLATE_WRITE: frozenset({R.ADMIN, R.LEAD}),
    Action.ALERT_READ: frozenset({R.ADMIN, R.AUDITOR, R.LEAD}),
    Action.ALERT_SILENCE: frozenset({R.ADMIN}),
    Action.TEMPLATE_PUBLISH: frozenset({R.ADMIN}),
    Action.SETTINGS_READ: frozenset({R.ADMIN, R.AUDITOR}),
    Action.IDLE_READ: frozenset({R.ADMIN, R.AUDITOR, R.LEAD, R.MEMBER}),
    Action.IDLE_SET: frozenset({R.ADMIN}),
    Action.IDLE_EXEMPT: frozenset({R.ADMIN, R.LEAD}),
    Action.IDLE_EXTEND: frozenset({R.ADMIN, R.LEAD, R.OWNER}),
}

_CLUSTER_WIDE: Mapping[str, Relation] = {ClusterRole.ADMIN: R.ADMIN, ClusterRole.AUDITOR: R.AUDITOR}


def cluster_relation(user: User) -> Relation:
    """The user's relation to the whole cluster: administrator, auditor or other."""
    return _CLUSTER_WIDE.get(user.role, R.OTHER)


def allowed_everywhere(user: User, action: Action) -> bool:
    """Whether the user may do this to anything, whatever it belongs to. A disabled account may do nothing."""
    return user.is_active and bool({cluster_relation(user), R.OTHER} & ALLOWED[action])
