"""Translations of stored English sentences about nodes and GPUs: what is wrong with them and what happened to them."""

from __future__ import annotations

from django.utils.translation import gettext_noop

from portal.common.sentences import reworded

SENTENCES = (
    gettext_noop("No report since %(time)s; given up after %(seconds)s s."),
    gettext_noop("No report since %(time)s; given up by %(user)s: %(why)s"),
    gettext_noop(
        "%(number)s of %(all)s nodes fell silent together; none is given up. Look at the network and at the broker's "
        "address."
    ),
    gettext_noop("not part of the node's topology: %(why)s"),
    gettext_noop("a container of a task attempt this portal does not know runs on it: %(attempt)s"),
    gettext_noop("the node says: %(why)s"),
    gettext_noop("the Docker Engine broke its answer off (%(why)s)"),
    gettext_noop("no Docker Engine answers at %(address)s: systemctl start docker, or correct BERTH_NODE_DOCKER_URL"),
    gettext_noop(
        "the Docker Engine at %(address)s does not answer in time: systemctl status docker and journalctl -u docker "
        "tell why"
    ),
    gettext_noop(
        "this agent may not open the Docker Engine's socket at %(address)s: run the agent as root, or in the group of "
        "that socket (docker)"
    ),
    gettext_noop("what answers at %(address)s is no Docker Engine: correct BERTH_NODE_DOCKER_URL"),
    gettext_noop("the Docker Engine failed: %(why)s"),
    gettext_noop("it gives no answer"),
    gettext_noop("its agent may mount nothing from %(server)s (BERTH_NODE_NFS_SERVERS)"),
    gettext_noop("its agent allows no storage at %(root)s (BERTH_NODE_MOUNT_ROOTS)"),
    gettext_noop(
        "its agent allows no storage at %(root)s (BERTH_NODE_MOUNT_ROOTS), and %(export)s is mounted by it below "
        "%(own)s only"
    ),
    gettext_noop("%(export)s names no server and folder"),
    gettext_noop("it lies inside %(root)s: whoever writes there could put a link in its place"),
    gettext_noop("the mount option %(option)s is not allowed"),
    gettext_noop("nothing is mounted at %(root)s"),
    gettext_noop("a link leads away from %(root)s: name the folder itself"),
    gettext_noop("%(root)s does not answer: its file server is away"),
    gettext_noop(
        "setuid programs that jobs leave there count on this server: %(root)s is not mounted nosuid,nodev (%(why)s)"
    ),
    gettext_noop("its agent is not root"),
    gettext_noop("its agent has mounts of its own, as in a container"),
    gettext_noop("its agent may not mount"),
    gettext_noop("does not answer: its file server is away"),
    gettext_noop("this server cannot mount NFS: install nfs-common, and a kernel with NFS (%(why)s)"),
    gettext_noop("%(export)s cannot be mounted: %(why)s"),
)
_GPUS = (
    gettext_noop("the driver asks for a reset of this GPU"),
    gettext_noop("the driver asks for a restart of the node"),
    gettext_noop("the driver asks to drain the GPUs that talk to this one"),
    gettext_noop("the driver asks to drain this GPU and reset it"),
    gettext_noop("the driver asks to recover the IMEX domain"),
    gettext_noop("the driver asks for a reset of the bus"),
    gettext_noop("the driver asks for a restart of the system"),
    gettext_noop("the driver asks for recovery action %(number)s"),
    gettext_noop("the GPU is lost: it no longer answers the driver"),
    gettext_noop("a memory row could not be remapped: this GPU is worn out"),
    gettext_noop("a memory row waits to be remapped: this GPU needs a reset"),
    gettext_noop("hardware error Xid %(number)s (%(times)s in all)"),
    gettext_noop("hardware error Xid %(number)s"),
    gettext_noop("%(number)s uncorrectable memory errors since the driver was loaded"),
    gettext_noop("a process that no job started uses it: %(processes)s"),
    gettext_noop("it is in MIG mode, which Berth does not share yet: nvidia-smi -i %(index)s -mig 0 switches it off"),
)
"""What agents report of a GPU (``nodes/agent/hardware/gpus``)."""
_EVENTS = (
    gettext_noop("Node %(node)s tells of %(number)s unknown containers; %(noted)s of them are noted."),
    gettext_noop("Node %(node)s was registered."),
    gettext_noop("Node %(node)s is accepted."),
    gettext_noop("Node %(node)s may offer what it claims."),
    gettext_noop("Node %(node)s claims more than was accepted; it does not count until it is confirmed."),
    gettext_noop("Node %(node)s is tied to the storage %(storage)s."),
    gettext_noop("Node %(node)s is untied from the storage %(storage)s."),
    gettext_noop("Node %(node)s does not see what other servers write in %(storage)s: it is untied from it."),
    gettext_noop("Node %(node)s takes tasks without GPUs."),
    gettext_noop("Node %(node)s takes no more tasks without GPUs; those that run there go on."),
    gettext_noop("Node %(node)s was removed."),
    gettext_noop("Node %(node)s has a new key; the old one is refused."),
    gettext_noop("Node %(node)s reports for the first time."),
    gettext_noop("Node %(node)s is back."),
    gettext_noop("Node %(node)s is lost. %(why)s"),
    gettext_noop("Node %(node)s is open: %(why)s"),
    gettext_noop("Node %(node)s is cordoned: %(why)s"),
    gettext_noop("Node %(node)s is draining: %(why)s"),
    gettext_noop("Node %(node)s is open."),
    gettext_noop("Node %(node)s is cordoned."),
    gettext_noop("Node %(node)s is draining."),
    gettext_noop("Node %(node)s: expected."),
    gettext_noop("Node %(node)s: now %(shape)s in %(chain)s."),
    gettext_noop("The clock of node %(node)s is right again."),
    gettext_noop("The agent of %(node)s names no range of ports: %(ports)s are used."),
    gettext_noop(
        "Reports of %(node)s are refused: its agent numbers its start before the one that was heard last. Give it a "
        "new key."
    ),
    gettext_noop("The agent of %(node)s names no address: tasks on other servers cannot reach those there."),
    gettext_noop("Node %(node)s runs the container of a task attempt that this portal does not know: %(attempt)s."),
    gettext_noop("The unknown container of task attempt %(attempt)s is gone."),
    gettext_noop("The unknown container of task attempt %(attempt)s is stopped: %(why)s"),
    gettext_noop("The unknown container of task attempt %(attempt)s is stopped."),
    gettext_noop("The disk for containers of %(node)s is full: it takes nothing new."),
    gettext_noop("The disk for containers of %(node)s has room again."),
    gettext_noop("The container engine of %(node)s does not answer: the node takes nothing new."),
    gettext_noop("The container engine of %(node)s answers again."),
    gettext_noop("Node %(node)s does not take its orders: it gets nothing new."),
    gettext_noop("Node %(node)s takes its orders again."),
    gettext_noop("A task of %(user)s could not be started on %(node)s: %(cause)s."),
    gettext_noop("%(node)s takes nothing new: on trial, another task failed at the start (%(cause)s)."),
    gettext_noop("%(node)s takes nothing new: tasks of %(number)s users failed at the start (%(cause)s)."),
    gettext_noop("%(node)s is tried again."),
    gettext_noop("A task started well on %(node)s."),
    gettext_noop("%(names)s of %(node)s put back: %(why)s"),
    gettext_noop("GPU %(index)s (%(uuid)s) of %(node)s is not there any more."),
    gettext_noop("GPU %(index)s (%(uuid)s) of %(node)s is in %(other)s now."),
    gettext_noop("%(node)s reports the GPU %(uuid)s, which %(other)s reports as well: it stays with that one."),
    gettext_noop("GPU %(index)s of %(node)s: %(model)s, %(memory)s MB."),
    gettext_noop("GPU %(index)s of %(node)s: %(why)s."),
    gettext_noop("Topology of %(node)s: %(shape)s, GPUs %(indices)s."),
    gettext_noop("Rack %(rack)s stays as it is, since quotas are made of it: %(node)s is not part of it."),
    gettext_noop("Rack %(rack)s: %(number)s nodes are a cell of type %(type)s."),
)
_PARTS = (
    gettext_noop("never"),
    gettext_noop("its node has %(sku)s"),
    gettext_noop("its node has no place left; an administrator can take the topology anew"),
    gettext_noop("the configuration gives it no cell"),
    gettext_noop("its node finds nothing wrong any more; it is fenced off until it is put back"),
    gettext_noop("is well again"),
    gettext_noop("device fault"),
    gettext_noop("not ready in time"),
    gettext_noop("engine fault"),
    gettext_noop("storage missing"),
    gettext_noop("port taken"),
    gettext_noop("image mismatch"),
    gettext_noop("vanished"),
    gettext_noop("the node"),
    gettext_noop("%(names)s, the node"),
    gettext_noop("%(process)s and %(number)s more"),
)
_KNOWN = (*SENTENCES, *_GPUS, *_EVENTS)


def health_words(message: str) -> str:
    """Translates a stored sentence; anything else that a node itself says is left as it is."""
    return reworded(message, _KNOWN, (*_KNOWN, *_PARTS))
