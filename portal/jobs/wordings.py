"""Sentences that are stored of a job: what happened to it, how its attempts and tasks ended, and what may help."""

from __future__ import annotations

from nodes.protocol.wording import Wording
from portal.common.priorities import PRIORITY_CLASSES, priority_name

# ---------------------------------------------------------------- parts of others

TASKS = Wording("tasks", "%(number)s task", "%(number)s tasks", count="number")
GPUS = Wording("gpus", "%(number)s GPU", "%(number)s GPUs", count="number")
AND = Wording("and", "%(names)s and %(last)s")
OF_OTHERS = Wording("job_of_others", "a job of %(user)s in %(vc)s (%(gpus)s)")
_CLASSES = {
    PRIORITY_CLASSES["crit"]: Wording("class_crit", "Critical"),
    PRIORITY_CLASSES["prod"]: Wording("class_prod", "Production"),
    PRIORITY_CLASSES["test"]: Wording("class_test", "Test"),
    PRIORITY_CLASSES["oppo"]: Wording("class_oppo", "Opportunistic"),
}


def class_said(priority: int) -> str:
    """A priority class's name, as part of a sentence."""
    return _CLASSES[priority]() if priority in _CLASSES else priority_name(priority)


# ---------------------------------------------------------------- its way

SUBMITTED = Wording("submitted", "%(job)s submitted to %(vc)s: %(tasks)s.")
SUBMITTED_GPUS = Wording("submitted_gpus", "%(job)s submitted to %(vc)s: %(tasks)s, %(gpus)s.")
STARTING = Wording("starting", "Attempt %(number)s starts.")
PLACED = Wording("placed", "Attempt %(number)s: %(tasks)s placed on %(nodes)s.")
GREW = Wording("job_grew", "It grows to %(tasks)s: %(more)s more on %(nodes)s, whose GPUs nobody else wants now.")
SHRANK = Wording("job_shrank", "%(why)s The job runs on with %(tasks)s.")
ATTEMPT_RUNS = Wording("attempt_running", "Attempt %(number)s runs.")
RUNS = Wording("running", "%(job)s runs.")
ATTEMPT_ENDED = Wording("attempt_ended", "Attempt %(number)s ended: %(why)s")
REQUEUED = Wording("requeued", "%(why)s The job waits again, with the time of its submission.")
ALL_DONE = Wording("all_done", "All tasks are done.")
ENOUGH_DONE = Wording("enough_done", "%(number)s of %(instances)s tasks of %(role)s succeeded.")
DONE_BEFORE_PREEMPTED = Wording(
    "done_before_preempted", "All tasks had succeeded by themselves before they could be preempted."
)
LIMIT_REACHED = Wording("time_limit", "Its time limit of %(seconds)s s was reached.")
LIMIT_NEAR = Wording("limit_near", "Its time limit is reached at %(time)s UTC: then it is stopped.")

# ---------------------------------------------------------------- tasks

OF_TASK = Wording("of_task", "Task %(task)s: %(why)s")
TASK_ON = Wording("task_on", "Task %(task)s on %(node)s: %(why)s")
PULLING = Wording("task_pulling", "pulling.")
PREPARED = Wording("task_prepared", "prepared.")
STARTS = Wording("task_starting", "starting.")
TASK_RUNS = Wording("task_running", "running.")
ENDED = Wording("task_ended", "ended (%(cause)s).")
ENDED_WITH = Wording("task_ended_with", "ended with status %(code)s (%(cause)s).")
TASK_FAILED = Wording("task_failed", "Task %(task)s failed on %(node)s: %(why)s")
OTHERS_FAILED = Wording("tasks_failed", "%(why)s %(failed)s of %(instances)s tasks of this role failed.")
AGAIN = Wording("task_again", "%(why)s It is tried again.")
AGAIN_AT = Wording("task_again_at", "%(why)s It is tried again at %(time)s UTC.")
TASK_LOST = Wording("task_lost", "Task %(task)s was lost with node %(node)s.")
TASK_BACK = Wording("task_back", "Task %(task)s came back with node %(node)s.")
GIVEN_UP = Wording(
    "task_given_up",
    "Task %(task)s did not end on %(node)s within %(minutes)s minutes after its grace, and is given up.",
)
NOT_PREPARED = Wording("task_not_prepared", "Task %(task)s was not prepared on %(node)s within %(seconds)s s.")
NOT_STARTED = Wording("task_not_started", "Task %(task)s was not started on %(node)s within %(seconds)s s.")

# ---------------------------------------------------------------- nodes

NODE_LOST = Wording("node_lost", "Node %(node)s was lost.")
NODE_DRAINED = Wording("node_drained", "Node %(node)s is drained.")
NODE_DRAINED_FOR = Wording("node_drained_for", "Node %(node)s is drained: %(why)s.")
NODE_GIVEN_UP = Wording("node_given_up", "The portal gave node %(node)s up.")
GPU_BAD = Wording("gpu_bad", "GPU %(index)s of %(node)s: %(why)s.")

# ---------------------------------------------------------------- GPUs given and taken

PREEMPTED = Wording("preempted", "Preempted by %(job)s, %(why)s.")
HIGHER = Wording("preempted_higher", "which has a higher priority")
OWED_GPUS = Wording("preempted_gpus", "which is owed the GPUs that it had on loan")
EXTRA_TAKEN = Wording("preempted_extra", "which waited for a GPU: extra tasks are the first to give theirs back")
OWED_REST = Wording("preempted_rest", "which is owed the CPU or memory that it had on loan")
PREEMPTS = Wording(
    "preempting",
    "%(number)s GPU of %(jobs)s is taken back for it by %(time)s UTC.",
    "%(number)s GPUs of %(jobs)s are taken back for it by %(time)s UTC.",
    count="number",
)
PROMOTED = Wording("promoted", "Its %(gpus)s are inside the quota of %(vc)s from now on.")
DEMOTED = Wording("demoted", "Its %(gpus)s are on loan from now on and may be taken back: %(why)s.")
OWED_QUOTA = Wording("owed_quota", "%(job)s is owed their quota")

# ---------------------------------------------------------------- by people

STOPPED_BY = Wording("stopped_by", "Stopped by %(who)s.")
NO_STORAGE_MORE = Wording("no_storage_more", "%(vc)s has no storage %(name)s any more; it has: %(known)s")
NONE = Wording("none", "none")
NO_HOST_NETWORK = Wording("no_host_network", "%(tasks)s tasks need the host network, which %(vc)s may not use any more")
PAUSED_BY = Wording("paused_by", "Paused by %(who)s.")
PAUSED = Wording("paused", "Paused: %(why)s. Ask an administrator, then resume the job.")
RESUMED = Wording("resumed", "Resumed by %(who)s.")
KEPT = Wording("kept", "It runs for %(vc)s, by %(who)s.")
MOVED = Wording("moved", "Moved from %(vc)s to %(other)s by %(who)s.")
PRIORITY = Wording("priority", "Its priority was changed from %(before)s to %(after)s by %(who)s.")
TO_OWN_PLACE = Wording("ordered_own", "Back at its own place in the queue, by %(who)s.")
TO_FRONT = Wording("ordered_front", "Moved to the front of %(priority)s jobs of %(vc)s by %(who)s.")
TO_OWN_FRONT = Wording("ordered_own_front", "Moved to the front of the owner's %(priority)s jobs of %(vc)s by %(who)s.")
BEFORE = Wording("ordered_before", "Moved before %(job)s in the queue by %(who)s.")
BEHIND = Wording("ordered_behind", "Moved behind %(job)s in the queue by %(who)s.")
HELD = Wording("owner_gone", "Held: %(why)s.")
OWNER_HELD = Wording(
    "owner_held",
    "its owner %(user)s may not run jobs in %(vc)s any more; a lead of %(vc)s or an administrator lets it run for the "
    "team, or stops it",
)
"""Why a job is held whose owner has left its team."""

# ---------------------------------------------------------------- containers that cannot be made

NO_SECRETS = Wording(
    "no_secrets",
    "Its secrets cannot be opened: they were stored under another key than the portal has now. Submit the job again, "
    "with its secrets.",
)
NO_STORAGE = Wording(
    "no_storage", "There is no storage %(storage)s any more, which it mounts: submit it again without it."
)
NO_SPEC = Wording("no_spec", "Its container cannot be described, and the portal's log says why: tell an administrator.")

# ---------------------------------------------------------------- hints

NO_NVLINK = Wording(
    "no_nvlink",
    "%(number)s tasks of %(role)s with one GPU each share a node: containers have no NVLink between them. One task "
    "with %(gpus)s GPUs would.",
)
LEFT_OUT = Wording("left_out", "Its tasks go without %(names)s: of so many tasks these are longer than Linux takes.")
NO_SSH = Wording("no_ssh", "No SSH into %(task)s on %(node)s: %(why)s.")
NO_JOB_FOLDERS = Wording(
    "no_job_folders", "No shared storage is set up for job folders: a job that is requeued starts from nothing."
)
WAITS_UNTIL = Wording("waits_until", "It waits until this has changed: %(why)s.")
SSH_NOBODY = Wording(
    "ssh_nobody", "SSH lets nobody in: store a public key on your profile. One that you add later counts at once."
)
SSH_NOTHING = Wording(
    "ssh_nothing", "The plug-in ssh asks for nothing here: give it jobssh: true, or keys of your own by userssh."
)
WINDOWS_ENDS = Wording(
    "windows_ends",
    "The commands of %(role)s have line ends of Windows (CR LF): they are read as those of Unix. Scripts of your own "
    "need these, too.",
)
BACKGROUND_END = Wording(
    "background_end",
    "The last command of %(role)s runs in the background (&): the task ends when its commands do, and kills it. Leave "
    "out the &, or end the commands with: wait",
)
WITHOUT_EFFECT = {
    "image_checker": Wording(
        "no_image_checker",
        "The plug-in image_checker has no effect here: each image is looked for when the job starts.",
    ),
    "tensorboard": Wording(
        "no_tensorboard",
        "The plug-in tensorboard has no effect here: start TensorBoard in the commands, on a port that the role asks "
        "for.",
    ),
}
"""OpenPAI plug-ins that nothing reads, by name, with the hint for each."""

# ---------------------------------------------------------------- why it waits

NEEDS = Wording("waits_needs", "it needs %(job)s, which ended as %(state)s; stop this job, or let that one succeed")
TRIED_AT = Wording("waits_tried", "it is tried again at %(time)s UTC")
TRIED_AT_AFTER = Wording("waits_tried_after", "it is tried again at %(time)s UTC: %(why)s")

# ---------------------------------------------------------------- its storages

NOT_TIED = Wording("storage_not_tied", "no server that it may run on is tied to %(storage)s")
NOT_OFFERED = Wording("storage_not_offered", "no server that it may run on offers %(storage)s now: %(node)s (%(why)s)")
NOT_ALL_THERE = Wording("storages_apart", "no server that it may run on has all of its storages: %(storages)s")
AWAY = Wording("storage_away", "the servers that have %(storage)s do not answer: %(nodes)s")


# Verdicts on ends, words of nodes and hints of the job file are declared beside what they belong to.
import portal.jobs.exits  # noqa: E402, F401
