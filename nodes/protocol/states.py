"""States of a container on a node, phases that an order asks for, and causes of a container's end."""

from __future__ import annotations

from enum import StrEnum


class Phase(StrEnum):
    """What the portal wants of a task attempt on its node. Only ever moves down this list."""

    PREPARE = "prepare"  # pull the image, create the container, do not start it
    RUN = "run"  # start it (prepares first where that has not happened)
    STOP = "stop"  # SIGTERM, grace, SIGKILL; keep the container and its log
    REMOVE = "remove"  # the log is archived: remove container and spool


class ContainerState(StrEnum):
    """State of a task attempt on its node, in the order in which it may move (jumps allowed, never back)."""

    ACCEPTED = "accepted"  # the order is known; waiting (for a lease, a spec, a slot)
    PULLING = "pulling"  # the image is on its way
    PREPARED = "prepared"  # the container exists and may be started
    STARTING = "starting"  # start was called
    RUNNING = "running"  # its first process is alive
    TERMINATED = "terminated"  # it ended, or never came to be; ``exit`` says why


_RANK = {state: rank for rank, state in enumerate(ContainerState)}


def moves_forward(old: ContainerState, new: ContainerState) -> bool:
    """Whether ``new`` lies strictly after ``old``: False for late and repeated reports."""
    return _RANK[new] > _RANK[old]


def reached(state: ContainerState, goal: ContainerState) -> bool:
    """Whether ``state`` is ``goal`` or lies after it."""
    return _RANK[state] >= _RANK[goal]


class ListenerKind(StrEnum):
    """Kinds of listeners without authentication, known by their answers."""

    DOCKER = "docker"
    REDIS = "redis"
    MEMCACHED = "memcached"
    ETCD = "etcd"
    KUBELET = "kubelet"
    JUPYTER = "jupyter"
    ELASTICSEARCH = "elasticsearch"
    MONGODB = "mongodb"
    POSTGRESQL = "postgresql"
    METRICS = "metrics"
    RAY = "ray"
    CONSUL = "consul"


class StepFault(StrEnum):
    """Why a task's steps are not known although it tells them."""

    NUMBER = "number"  # the pattern's first group is no whole number
    SLOW = "slow"  # the pattern takes too long: some lines are not searched
    LINK = "link"  # $BERTH_STEPS is a symbolic link
    NO_FILE = "no_file"  # it is a folder, a FIFO, a device
    LONG = "long"  # it is longer than a step and a moment
    TEXT = "text"  # it does not say "<number> <unix ms>"
    FUTURE = "future"  # its moment has not come yet


class StopReason(StrEnum):
    """Why the portal asked for a stop. The agent returns it in the exit."""

    USER = "user"  # the owner or an administrator stopped the job
    SIBLING = "sibling"  # another task decided the attempt
    PREEMPTED = "preempted"
    DRAINED = "drained"
    TIME_LIMIT = "time_limit"
    START_FAILED = "start_failed"  # another task of the gang could not be prepared or started
    LOST = "lost"  # the portal had given this attempt up when its node came back


class Cause(StrEnum):
    """What ended a container, as the node saw it. The portal turns it into words and a retry decision."""

    EXITED = "exited"  # its program ended by itself; ``code`` is its exit status
    SIGNALLED = "signalled"  # killed by a signal that we did not send
    OOM = "oom"  # killed by SIGKILL, and the kernel killed for memory
    STOPPED = "stopped"  # by our own stop; ``stop_reason`` says which
    UNKILLABLE = "unkillable"  # still there 2 minutes after SIGKILL
    VANISHED = "vanished"  # it had been created and is gone without our doing
    IMAGE_MISSING = "image_missing"  # its registry says that it has none
    IMAGE_AWAY = "image_away"  # its registry does not answer, or says to come again
    IMAGE_PLATFORM = "image_platform"  # it is made for other processors than the node's
    NO_SHELL = "no_shell"  # it has no /bin/sh
    IMAGE_DENIED = "image_denied"  # the registry refused the login
    IMAGE_MISMATCH = "image_mismatch"  # not the digest the other tasks of the attempt run
    REFUSED = "refused"  # the node's policy file forbids the order
    INVALID = "invalid"  # the Engine calls the request wrong (bad command, bad mount): the job's fault
    PORT_TAKEN = "port_taken"  # a host port of the order is in use
    STORAGE_MISSING = "storage_missing"  # a storage of the order is not mounted here
    DEVICE_FAULT = "device_fault"  # driver missing, CDI name unknown, GPU gone
    CODE_MISSING = "code_missing"  # the portal has the job's code no more, or it arrives damaged again and again
    NO_SPACE = "no_space"  # the node's disk is full
    LAYER_FULL = "layer_full"  # its container wrote more into its own layer than the node allows
    ENGINE_FAULT = "engine_fault"  # the Engine failed in a way that is not the job's


NODE_FAULTS = frozenset(
    {
        Cause.VANISHED,
        Cause.PORT_TAKEN,
        Cause.STORAGE_MISSING,
        Cause.DEVICE_FAULT,
        Cause.NO_SPACE,
        Cause.ENGINE_FAULT,
        Cause.IMAGE_MISMATCH,
    }
)
"""Causes that are the node's fault, not the job's: the job is tried elsewhere without using up its retries."""
