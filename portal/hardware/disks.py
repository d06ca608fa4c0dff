"""Words for what takes the space on a node's disk."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from django.utils.translation import gettext, gettext_noop

from portal.common.sentences import some_of
from portal.hardware.models import Node

_WORDS: Mapping[str, str] = {
    "images": gettext_noop("images"),
    "layer": gettext_noop("what the container of %(name)s wrote outside storages"),
    "volumes": gettext_noop("volumes of Docker"),
    "build cache": gettext_noop("Docker's build cache"),
    "logs": gettext_noop("logs that are not archived yet"),
    "code": gettext_noop("code of jobs, kept for the next task"),
    "workspaces": gettext_noop("code of jobs, unpacked"),
}
NAMED = 3


class Taken(NamedTuple):
    """A use of the disk, in MB."""

    words: str
    mb: int


def node_largest(node: Node, *, names: bool) -> list[Taken]:
    """The largest uses as last reported, largest first; empty while there is space. ``names``: with the jobs' names,
    otherwise only their users'."""
    return [
        Taken(gettext(_WORDS.get(what, "%(name)s")) % {"name": name if names else name.partition("/")[0]}, mb)
        for what, name, mb in node.inventory.get("largest", ())
    ]


def largest_words(node: Node) -> str:
    """A sentence with the largest ones; empty if none are reported."""
    found = [f"{one.words} ({one.mb / 1024:.1f} GB)" for one in node_largest(node, names=True)]
    return gettext("Largest: %(things)s.") % {"things": some_of(found, NAMED)} if found else ""
