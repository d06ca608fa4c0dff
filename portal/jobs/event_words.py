"""Translates node messages and problems of job files, which are kept in English, inside declared sentences."""

from __future__ import annotations

from django.utils.translation import gettext_noop

from portal.common.sentences import reworded, worded
from portal.jobs.problem_words import PARTS as PROBLEM_PARTS
from portal.jobs.problem_words import SENTENCES as PROBLEMS

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
_PARTS = (
    gettext_noop("the image %(image)s"),
    gettext_noop("the profile %(profile)s"),
    gettext_noop("uid 0 under the profile user"),
    gettext_noop("the network %(network)s"),
    gettext_noop("mounts from %(root)s"),
    gettext_noop("checkpoint file"),
    gettext_noop("file of steps"),
    gettext_noop("lease"),
)
_FAULTY = (gettext_noop("%(fault)s; %(end)s"),)
FILLED = (*_PARTS, *_AGENTS, *PROBLEMS, *PROBLEM_PARTS, *_FAULTY)


def event_words(message: str) -> str:
    """The message in the reader's language."""
    return worded(message, lambda text: reworded(text, FILLED, FILLED))
