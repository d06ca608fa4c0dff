"""Translations of stored English sentences about nodes and GPUs: what is wrong with them."""

from __future__ import annotations

from django.utils.translation import gettext_noop

from portal.common.sentences import reworded, worded

SENTENCES = (
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
    gettext_noop("the GPU is not healthy"),
    gettext_noop("hardware error Xid %(number)s (%(times)s in all)"),
    gettext_noop("hardware error Xid %(number)s"),
    gettext_noop("%(number)s uncorrectable memory errors since the driver was loaded"),
    gettext_noop("a process that no job started uses it: %(processes)s"),
    gettext_noop("it is in MIG mode, which Berth does not share yet: nvidia-smi -i %(index)s -mig 0 switches it off"),
)
"""What agents report of a GPU (``nodes/agent/hardware/gpus``)."""
_PARTS = (
    gettext_noop("its node has %(sku)s"),
    gettext_noop("its node has no place left; an administrator can take the topology anew"),
    gettext_noop("the configuration gives it no cell"),
    gettext_noop("%(process)s and %(number)s more"),
)
_KNOWN = (*SENTENCES, *_GPUS)


def health_words(message: str) -> str:
    """Translates a stored sentence; anything else that a node itself says is left as it is."""
    return worded(message, lambda text: reworded(text, (*_KNOWN, *_PARTS), (*_KNOWN, *_PARTS)))
