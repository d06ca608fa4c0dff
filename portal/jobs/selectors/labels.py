"""Job labels as people write them: ``name``, ``name#run``, ``user/name#run``."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class JobLabel:
    """A parsed label; ``run`` None: the newest run."""

    user: str
    name: str
    run: int | None = None

    @property
    def named(self) -> JobLabel:
        """The label without its run."""
        return replace(self, run=None)


def label_read(text: str, *, user: str) -> JobLabel:
    """Parses a label as typed; without a user it is one of ``user``'s own."""
    owner, slash, rest = text.rpartition("/")
    name, mark, run = rest.partition("#")
    return JobLabel(owner if slash else user, name, int(run) if mark and run.isdigit() else None)
