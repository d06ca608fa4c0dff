"""Translates stored job events, attempt ends and node messages, which are kept in English. A sentence is reworded by
the first template here that matches it. Names and text from programs, an Engine or an administrator stay as they
are."""

from __future__ import annotations

from django.utils.translation import gettext_noop

from portal.common.sentences import reworded
from portal.jobs.container import NO_SECRETS, NO_SPEC, NO_STORAGE
from portal.jobs.exits import OOM_SEEN, SENTENCES
from portal.jobs.problem_words import PARTS as PROBLEM_PARTS
from portal.jobs.problem_words import SENTENCES as PROBLEMS

_AROUND = (
    gettext_noop("Attempt %(number)s ended: %(why)s"),
    gettext_noop("%(why)s The job waits again, with the time of its submission."),
    gettext_noop("%(why)s It is tried again."),
    gettext_noop("%(why)s It is tried again at %(time)s UTC."),
    gettext_noop("%(why)s %(failed)s of %(instances)s tasks of this role failed."),
    gettext_noop("Task %(task)s failed on %(node)s: %(why)s"),
    gettext_noop("Task %(task)s on %(node)s: %(why)s"),
    gettext_noop("Task %(task)s: %(why)s"),
    gettext_noop("%(why)s Its program has ended so %(times)s times: from now on that counts as a failure of its own."),
    gettext_noop("%(why)s It is tried until %(time)s UTC."),
    gettext_noop("%(why)s It was tried for %(minutes)s minutes."),
    gettext_noop("%(why)s The kernel had killed one of its processes for memory: it may need more memoryMB."),
)
"""Templates that wrap another sentence."""
_EVENTS = (
    gettext_noop("%(job)s submitted to %(vc)s: %(tasks)s, %(gpus)s."),
    gettext_noop("%(job)s submitted to %(vc)s: %(tasks)s."),
    gettext_noop("Attempt %(number)s: %(tasks)s placed on %(nodes)s."),
    gettext_noop("Attempt %(number)s starts."),
    gettext_noop("Attempt %(number)s runs."),
    gettext_noop("%(job)s runs."),
    gettext_noop(
        "%(number)s tasks of %(role)s with one GPU each share a node: containers have no NVLink between them. One task "
        "with %(gpus)s GPUs would."
    ),
    gettext_noop("Task %(task)s was lost with node %(node)s."),
    gettext_noop("Task %(task)s came back with node %(node)s."),
    gettext_noop("Task %(task)s did not end on %(node)s within %(minutes)s minutes after its grace, and is given up."),
    gettext_noop("Task %(task)s was not prepared on %(node)s within %(seconds)s s."),
    gettext_noop("Task %(task)s was not started on %(node)s within %(seconds)s s."),
    OOM_SEEN,
    NO_SECRETS,
    NO_SPEC,
    NO_STORAGE,
    gettext_noop("Its tasks go without %(names)s: of so many tasks these are longer than Linux takes."),
    gettext_noop("Node %(node)s was lost."),
    gettext_noop("Node %(node)s is drained: %(why)s."),
    gettext_noop("Node %(node)s is drained."),
    gettext_noop("The portal gave node %(node)s up."),
    gettext_noop("GPU %(index)s of %(node)s: %(why)s."),
    gettext_noop("All tasks are done."),
    gettext_noop("All tasks had succeeded by themselves before they could be preempted."),
    gettext_noop("%(number)s of %(instances)s tasks of %(role)s succeeded."),
    gettext_noop("Its time limit of %(seconds)s s was reached."),
    gettext_noop("Its time limit is reached at %(time)s UTC: then it is stopped."),
    gettext_noop("Preempted by %(job)s, %(why)s."),
    gettext_noop("%(gpus)s of %(jobs)s is taken back for it by %(time)s UTC."),
    gettext_noop("%(gpus)s of %(jobs)s are taken back for it by %(time)s UTC."),
    gettext_noop("Its %(gpus)s are inside the quota of %(vc)s from now on."),
    gettext_noop("Its %(gpus)s are on loan from now on and may be taken back: %(why)s."),
    gettext_noop("Moved from %(vc)s to %(other)s by %(who)s."),
    gettext_noop("Back at its own place in the queue, by %(who)s."),
    gettext_noop("Moved to the front of the owner's %(priority)s jobs of %(vc)s by %(who)s."),
    gettext_noop("Moved to the front of %(priority)s jobs of %(vc)s by %(who)s."),
    gettext_noop("Moved before %(job)s in the queue by %(who)s."),
    gettext_noop("Moved behind %(job)s in the queue by %(who)s."),
    gettext_noop("Its priority was changed from %(before)s to %(after)s by %(who)s."),
    gettext_noop("Paused by %(who)s."),
    gettext_noop("Paused: %(why)s. Ask an administrator, then resume the job."),
    gettext_noop("Resumed by %(who)s."),
    gettext_noop("It runs for %(vc)s, by %(who)s."),
    gettext_noop("Held: %(why)s."),
    gettext_noop("Stopped by %(who)s."),
    gettext_noop("Stopped: %(why)s"),
    gettext_noop("No SSH into %(task)s on %(node)s: %(why)s."),
    gettext_noop("Put off by %(who)s for %(time)s. %(what)s"),
    gettext_noop("It is opportunistic until this attempt ends, and its GPUs may be taken back: %(why)s"),
    gettext_noop("Its %(gpus)s has been below %(percent)s %% for %(time)s. %(what)s"),
    gettext_noop("Its %(gpus)s have been below %(percent)s %% for %(time)s. %(what)s"),
    gettext_noop("Its %(gpus)s has been below %(percent)s %% for %(time)s."),
    gettext_noop("Its %(gpus)s have been below %(percent)s %% for %(time)s."),
    gettext_noop("It is stopped at %(time)s UTC unless it works again."),
    gettext_noop("It is stopped at %(time)s UTC unless they work again."),
    gettext_noop("It becomes opportunistic at %(time)s UTC unless it works again."),
    gettext_noop("It becomes opportunistic at %(time)s UTC unless they work again."),
    gettext_noop("its %(gpus)s was below %(percent)s %% for %(time)s; policy of %(whose)s; warned at %(at)s UTC."),
    gettext_noop("its %(gpus)s were below %(percent)s %% for %(time)s; policy of %(whose)s; warned at %(at)s UTC."),
    gettext_noop("The warning of %(time)s UTC is withdrawn: %(why)s."),
    gettext_noop("%(why)s. The job stays opportunistic until this attempt ends."),
)
_AGENTS = (
    gettext_noop("it ended well"),
    gettext_noop("it used more memory than its limit"),
    gettext_noop("%(end)s; one of its processes used more memory than its limit"),
    gettext_noop("it is still there 2 minutes after SIGKILL"),
    gettext_noop("a command is not executable (exit status 126)"),
    gettext_noop("a command was not found (exit status 127)"),
    gettext_noop("it could not be started (exit status 128)"),
    gettext_noop("its command failed with exit status %(code)s"),
    gettext_noop("killed by %(signal)s"),
    gettext_noop("stopped before it started"),
    gettext_noop("stopped: %(reason)s"),
    gettext_noop("the container ended and nobody saw how"),
    gettext_noop("its container is gone without our doing"),
    gettext_noop("its server knows nothing of it any more"),
    gettext_noop("its folder is gone"),
    gettext_noop("a GPU of this task is still held by %(other)s"),
    gettext_noop("a container of another owner is named %(name)s"),
    gettext_noop("another node's agent has this attempt in its hands"),
    gettext_noop("the image here is %(digest)s, the other tasks run %(other)s"),
    gettext_noop("%(image)s is %(digest)s here, the other tasks run %(other)s"),
    gettext_noop("the image %(image)s is gone after its pull"),
    gettext_noop("the image %(image)s cannot be fetched: %(why)s"),
    gettext_noop("there is no image %(image)s: %(why)s"),
    gettext_noop("no space for the image %(image)s"),
    gettext_noop("the registry refused %(image)s: %(why)s"),
    gettext_noop("the registry of %(image)s answers %(code)s: %(why)s"),
    gettext_noop("%(image)s is not made for this node's processors: %(why)s"),
    gettext_noop("its image has no /bin/sh"),
    gettext_noop("its image's /bin/sh is not made for this node's processors"),
    gettext_noop("the login is for %(registry)s, but the image comes from %(other)s"),
    gettext_noop("its process could not be started: %(why)s"),
    gettext_noop("the command could not be started: %(why)s"),
    gettext_noop("the wrapper of the process did not start"),
    gettext_noop("host port %(port)s is in use on this node"),
    gettext_noop("the node's policy does not allow %(what)s"),
    gettext_noop("its container wrote %(taken)s outside all storages, more than the %(most)s that are allowed"),
    gettext_noop("the disk for containers is full: this node takes nothing new"),
    gettext_noop("its code cannot be unpacked: %(why)s"),
    gettext_noop("its code cannot be kept: %(why)s"),
    gettext_noop("its code arrived %(tries)s times with another content than it was sent"),
    gettext_noop("the portal has its code no more: submit it again with its folder"),
    gettext_noop("the %(what)s lies in no folder that the task may use"),
    gettext_noop("storage %(name)s is not mounted at %(root)s"),
    gettext_noop("storage %(name)s is not offered here now"),
    gettext_noop("storage %(name)s has no folder %(path)s"),
    gettext_noop("storage %(name)s: %(why)s at %(root)s"),
    gettext_noop("%(path)s does not lie below storage %(name)s"),
    gettext_noop("%(step)s in %(path)s is no plain folder"),
    gettext_noop("the folder %(name)s cannot be made: %(why)s"),
    gettext_noop(
        "the folder %(name)s cannot be given to uid %(uid)s: export storage %(storage)s to this server with "
        "no_root_squash, or make the folder beforehand"
    ),
    gettext_noop("the folder %(name)s cannot be given to uid %(uid)s: %(why)s"),
    gettext_noop(
        "%(path)s is root's, and uid %(uid)s cannot use it: give it away (chown %(owner)s), or delete it where it is "
        "empty"
    ),
    gettext_noop(
        "%(path)s can be written by users, who could put a link in place of a folder there: make it root's "
        "(%(commands)s)"
    ),
    gettext_noop(
        "in its image a link leads from %(path)s to %(place)s, where nothing is mounted; name that path, or take an "
        "image without the link"
    ),
    gettext_noop("nothing can be mounted at %(path)s: users of the container are written there"),
    gettext_noop("%(path)s cannot be looked at: %(why)s"),
    gettext_noop("%(path)s cannot be mounted: what lies there in %(folder)s is a link or a file"),
    gettext_noop("SSH is for containers, and this node runs tasks as plain processes"),
    gettext_noop("this node allows no shells, and so no SSH"),
    gettext_noop("its SSH server could not be started"),
)
"""A node's messages: why a task ended, or why it could not do something (``nodes/``)."""
OWNER_HELD = gettext_noop(
    "its owner %(user)s may not run jobs in %(vc)s any more; a lead of %(vc)s or an administrator lets it run for the "
    "team, or stops it"
)
"""Why a job is held whose owner has left its team."""
_PARTS = (
    OWNER_HELD,
    gettext_noop("%(number)s task"),
    gettext_noop("%(number)s tasks"),
    gettext_noop("%(number)s GPU"),
    gettext_noop("%(number)s GPUs"),
    gettext_noop("%(number)s minute"),
    gettext_noop("%(number)s minutes"),
    gettext_noop("a job of %(user)s in %(vc)s (%(gpus)s)"),
    gettext_noop("%(names)s and %(number)s more"),
    gettext_noop("which has a higher priority"),
    gettext_noop("which is owed the GPUs that it had on loan"),
    gettext_noop("which is owed the CPU or memory that it had on loan"),
    gettext_noop("%(job)s is owed their quota"),
    gettext_noop("virtual cluster %(vc)s"),
    gettext_noop("the cluster"),
    gettext_noop("its GPUs work again"),
    gettext_noop("Its GPUs work again"),
    gettext_noop("nothing was heard of its GPUs for some minutes"),
    gettext_noop("Nothing was heard of its GPUs for some minutes"),
    gettext_noop("it is excepted from the idle policy now"),
    gettext_noop("It is excepted from the idle policy now"),
    gettext_noop("the idle policy was changed"),
    gettext_noop("The idle policy was changed"),
    gettext_noop("the image %(image)s"),
    gettext_noop("the profile %(profile)s"),
    gettext_noop("uid 0 under the profile user"),
    gettext_noop("the network %(network)s"),
    gettext_noop("mounts from %(root)s"),
    gettext_noop("checkpoint file"),
    gettext_noop("lease"),
    gettext_noop("Critical"),
    gettext_noop("Production"),
    gettext_noop("Test"),
    gettext_noop("Opportunistic"),
    gettext_noop("pulling."),
    gettext_noop("prepared."),
    gettext_noop("starting."),
    gettext_noop("running."),
    gettext_noop("ended with status %(code)s (%(cause)s)."),
    gettext_noop("ended (%(cause)s)."),
    gettext_noop("exited"),
    gettext_noop("signalled"),
    gettext_noop("stopped"),
    gettext_noop("oom"),
    gettext_noop("unkillable"),
    gettext_noop("vanished"),
    gettext_noop("image missing"),
    gettext_noop("image denied"),
    gettext_noop("image away"),
    gettext_noop("image platform"),
    gettext_noop("no shell"),
    gettext_noop("image mismatch"),
    gettext_noop("refused"),
    gettext_noop("invalid"),
    gettext_noop("port taken"),
    gettext_noop("storage missing"),
    gettext_noop("device fault"),
    gettext_noop("code missing"),
    gettext_noop("no space"),
    gettext_noop("engine fault"),
    gettext_noop("exit status %(code)s (%(name)s): %(why)s."),
    gettext_noop("an error"),
    gettext_noop("it was stopped."),
)
"""Phrases that fill placeholders and are translated too."""
_VERDICT = (gettext_noop("%(what)s (%(detail)s)."), gettext_noop("%(fault)s; %(end)s"), gettext_noop("%(what)s."))
"""A verdict on an end, with and without what the node added."""
_SENTENCES = (*_AROUND, *_EVENTS, *SENTENCES, *_AGENTS, *PROBLEMS)
FILLED = (*_AROUND, *_EVENTS, *SENTENCES, *_PARTS, _VERDICT[0], *_AGENTS, *PROBLEMS, *PROBLEM_PARTS, *_VERDICT[1:])


def event_words(message: str) -> str:
    """The message in the reader's language."""
    return reworded(message, _SENTENCES, FILLED)
