"""Reading jobs: what somebody may see, as lists and details with a fixed number of queries."""

from portal.jobs.selectors.choices import Choices, VcChoice, job_choices, vc_choices
from portal.jobs.selectors.code import code_get, code_limits, code_missing, code_ordered, code_restrict, code_uploaded
from portal.jobs.selectors.details import (
    RoleState,
    job_attempt_current,
    job_attempts,
    job_events,
    job_roles,
    job_tasks,
    task_attempt_of,
    task_runs,
    tasks_running,
)
from portal.jobs.selectors.facts import cluster_facts
from portal.jobs.selectors.folders import JobFolder, job_folder, job_folder_path
from portal.jobs.selectors.idle import idle_mark, idle_warning_of, idle_warnings
from portal.jobs.selectors.lists import job_listed, jobs_listed, jobs_tagged, saved_views
from portal.jobs.selectors.preemptions import (
    PreemptionShown,
    preemptions_leaving,
    preemptions_of,
    preemptions_open,
    preemptions_shown,
)
from portal.jobs.selectors.queue import (
    Forecast,
    Queued,
    forecast,
    job_forecast,
    queue_ordered,
    queue_places,
    queue_rows,
    queue_waiting,
)
from portal.jobs.selectors.runs import LOGS_TOGETHER, run_name, runs_together
from portal.jobs.selectors.templates import (
    TemplateHomes,
    template_get,
    template_home,
    template_homes,
    template_restrict,
    template_to_write,
)
from portal.jobs.selectors.usage import PastUse, usage_folded
from portal.jobs.selectors.usage_report import (
    GROUPS,
    PERIODS,
    UsageQuery,
    UsageReport,
    UsageRow,
    usage_report,
)
from portal.jobs.selectors.visible import (
    job_get,
    job_restrict,
    job_with_right,
    task_attempt_visible,
    task_attempt_with_right,
)

__all__ = [
    "TemplateHomes",
    "template_homes",
    "Choices",
    "VcChoice",
    "job_choices",
    "vc_choices",
    "LOGS_TOGETHER",
    "run_name",
    "runs_together",
    "template_get",
    "template_home",
    "template_restrict",
    "template_to_write",
    "GROUPS",
    "PERIODS",
    "Forecast",
    "JobFolder",
    "PastUse",
    "PreemptionShown",
    "Queued",
    "RoleState",
    "UsageQuery",
    "UsageReport",
    "UsageRow",
    "cluster_facts",
    "code_get",
    "code_limits",
    "code_missing",
    "code_ordered",
    "code_restrict",
    "code_uploaded",
    "forecast",
    "idle_mark",
    "idle_warning_of",
    "idle_warnings",
    "job_attempt_current",
    "job_attempts",
    "job_events",
    "job_folder",
    "job_folder_path",
    "job_forecast",
    "job_get",
    "job_listed",
    "job_restrict",
    "job_roles",
    "job_tasks",
    "job_with_right",
    "jobs_listed",
    "jobs_tagged",
    "preemptions_leaving",
    "preemptions_of",
    "preemptions_open",
    "preemptions_shown",
    "queue_ordered",
    "queue_places",
    "queue_rows",
    "queue_waiting",
    "saved_views",
    "task_attempt_of",
    "task_runs",
    "tasks_running",
    "task_attempt_visible",
    "task_attempt_with_right",
    "usage_folded",
    "usage_report",
]
