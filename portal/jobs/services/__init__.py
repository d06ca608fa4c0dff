"""Writing jobs: submit, stop, and what nodes report. Each service is one transaction or several whole ones."""

from portal.jobs.services.admission import job_check, job_hints
from portal.jobs.services.attempts import attempt_end, attempt_run_when_prepared
from portal.jobs.services.avoiding import NONE_AVOIDED, nodes_avoided
from portal.jobs.services.backoff import PAUSE_FURTHEST
from portal.jobs.services.bulk import Done, jobs_stop, jobs_tag
from portal.jobs.services.claims import claims_release
from portal.jobs.services.code import code_expire, code_forget, code_upload
from portal.jobs.services.environment import pai_job_name
from portal.jobs.services.folders import folder_going, folder_gone, folder_stays
from portal.jobs.services.forgetting import node_give_up, node_tasks_forget
from portal.jobs.services.holding import job_demote, job_move_cells, job_promote
from portal.jobs.services.idle import Left, idle_extend, idle_judge, idle_left
from portal.jobs.services.idle_policy import (
    idle_exemption_add,
    idle_exemption_remove,
    idle_policy_remove,
    idle_policy_set,
)
from portal.jobs.services.images import images_hold
from portal.jobs.services.losing import node_tasks_lose
from portal.jobs.services.moves import job_hold, jobs_hold
from portal.jobs.services.moving import job_change_vc
from portal.jobs.services.order import DEEPEST, Among, Moved, Place, job_movable, job_place, job_place_among
from portal.jobs.services.orders import desired_build, desired_send, nodes_bump, nodes_hold, orders_together
from portal.jobs.services.pausing import job_pause, job_resume
from portal.jobs.services.placing import Leaf, NoPortLeft, Overtaken, Placed
from portal.jobs.services.preempt import PREEMPTING, Preempting, Taken, jobs_preempt, preempting_words
from portal.jobs.services.priority import job_change_priority
from portal.jobs.services.progress import usage_progress, usage_progress_fold, usage_progress_roll
from portal.jobs.services.reading import code_read, files_read, log_read, logs_read, shell_open
from portal.jobs.services.reports import attempt_log_done, container_report, containers_report
from portal.jobs.services.restored import logs_told_anew
from portal.jobs.services.rollup import usage_open_days_keep, usage_rebuild, usage_roll
from portal.jobs.services.specs import grace_seconds
from portal.jobs.services.starting import Starting, attempts_start
from portal.jobs.services.stop import job_stop
from portal.jobs.services.storages import storages_hold
from portal.jobs.services.strangers import stranger_stop
from portal.jobs.services.submit import NameTaken, job_draft, job_submit
from portal.jobs.services.tags import job_tag, tag_fault
from portal.jobs.services.templates import template_change, template_create, template_remove, template_told
from portal.jobs.services.upkeep import jobs_reconcile
from portal.jobs.services.views import view_forget, view_save
from portal.jobs.services.waits import Told, Waiting, waits_due, waits_write
from portal.jobs.services.words import NAMED, job_of_others

__all__ = [
    "NONE_AVOIDED",
    "PAUSE_FURTHEST",
    "pai_job_name",
    "nodes_avoided",
    "stranger_stop",
    "template_change",
    "template_create",
    "template_remove",
    "template_told",
    "idle_exemption_add",
    "idle_exemption_remove",
    "idle_extend",
    "idle_judge",
    "idle_left",
    "idle_policy_remove",
    "idle_policy_set",
    "images_hold",
    "storages_hold",
    "NAMED",
    "NameTaken",
    "PREEMPTING",
    "Done",
    "Leaf",
    "Left",
    "NoPortLeft",
    "Overtaken",
    "Among",
    "Moved",
    "DEEPEST",
    "Place",
    "Placed",
    "Preempting",
    "Starting",
    "Taken",
    "Told",
    "Waiting",
    "attempt_end",
    "attempt_log_done",
    "attempt_run_when_prepared",
    "attempts_start",
    "claims_release",
    "code_expire",
    "folder_going",
    "folder_gone",
    "folder_stays",
    "code_forget",
    "code_read",
    "code_upload",
    "container_report",
    "containers_report",
    "desired_build",
    "desired_send",
    "files_read",
    "grace_seconds",
    "job_change_priority",
    "job_change_vc",
    "job_check",
    "job_demote",
    "job_draft",
    "job_hints",
    "job_hold",
    "job_of_others",
    "job_movable",
    "job_move_cells",
    "job_pause",
    "job_place",
    "job_place_among",
    "job_promote",
    "job_resume",
    "job_stop",
    "job_submit",
    "job_tag",
    "jobs_hold",
    "jobs_preempt",
    "jobs_reconcile",
    "jobs_stop",
    "jobs_tag",
    "log_read",
    "logs_read",
    "logs_told_anew",
    "node_give_up",
    "node_tasks_forget",
    "node_tasks_lose",
    "nodes_bump",
    "nodes_hold",
    "orders_together",
    "preempting_words",
    "shell_open",
    "tag_fault",
    "usage_progress",
    "usage_progress_fold",
    "usage_progress_roll",
    "usage_open_days_keep",
    "usage_rebuild",
    "usage_roll",
    "view_forget",
    "view_save",
    "waits_due",
    "waits_write",
]
