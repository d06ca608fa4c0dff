"""Reading for OpenPAI's clients: what they ask for, by the rights of Berth."""

from portal.openpai.selectors.cluster import (
    Amount,
    VcLoad,
    pods,
    sku_units,
    user_storage,
    vc_loads,
)
from portal.openpai.selectors.jobs import (
    AttemptSeen,
    JobsAsked,
    JobsFound,
    attempt_seen,
    attempts_seen,
    events_found,
    job_found,
    jobs_found,
    tags_of,
    task_runs,
)
from portal.openpai.selectors.people import (
    GroupSeen,
    UserSeen,
    group_found,
    groups_found,
    may_read_all,
    members_found,
    user_found,
    users_found,
)

__all__ = [
    "Amount",
    "AttemptSeen",
    "GroupSeen",
    "JobsAsked",
    "JobsFound",
    "UserSeen",
    "VcLoad",
    "attempt_seen",
    "attempts_seen",
    "events_found",
    "group_found",
    "groups_found",
    "job_found",
    "jobs_found",
    "may_read_all",
    "members_found",
    "pods",
    "sku_units",
    "tags_of",
    "task_runs",
    "user_found",
    "user_storage",
    "users_found",
    "vc_loads",
]
