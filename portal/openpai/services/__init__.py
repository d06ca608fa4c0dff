"""Writing for OpenPAI's clients: its own words (tags, extensions), and Berth's services put together as it wants."""

from portal.openpai.services.groups import pai_group_change, pai_group_create, pai_group_remove
from portal.openpai.services.jobs import job_create, job_execute, tag_add, tag_remove
from portal.openpai.services.people import (
    login,
    person_change,
    person_change_own,
    person_create,
    person_join,
    person_leave,
    person_remove,
    person_set_groups,
)
from portal.openpai.services.tokens import application_token, token_end

__all__ = [
    "application_token",
    "pai_group_change",
    "pai_group_create",
    "pai_group_remove",
    "job_create",
    "job_execute",
    "login",
    "person_change",
    "person_change_own",
    "person_create",
    "person_join",
    "person_leave",
    "person_remove",
    "person_set_groups",
    "tag_add",
    "tag_remove",
    "token_end",
]
