"""A container that writes without end into its own layer: warned once, and stopped where it goes on."""

from __future__ import annotations

from dataclasses import dataclass

GB = 1 << 30


class LayerSize(int):
    """Bytes that were counted. ``began_ms``: when that began, unix ms; what was deleted since may be among them."""

    began_ms: int

    def __new__(cls, taken: int, began_ms: int) -> LayerSize:
        made = super().__new__(cls, taken)
        made.began_ms = began_ms
        return made


@dataclass(frozen=True, slots=True)
class LayerLimit:
    """Bytes that a container may write into its own layer, and seconds from the warning to the stop."""

    most: int
    grace_s: float

    def warning(self, taken: int) -> str:
        """What the task is told, in its log and its notice."""
        return (
            f"its container has written {_gb(taken)} outside all storages; more than {_gb(self.most)} are not allowed: "
            f"it is stopped in {self.grace_s:.0f} s unless it deletes some"
        )

    def relief(self, taken: int) -> str:
        """What a task is told in its log that was warned and has deleted enough."""
        return f"its container has room again, with {_gb(taken)} outside all storages: it is not stopped for that"

    def verdict(self, taken: int) -> str:
        """Why it is stopped."""
        return f"its container wrote {_gb(taken)} outside all storages, more than the {_gb(self.most)} that are allowed"


def _gb(size: int) -> str:
    return f"{size / GB:.1f} GB" if size >= GB // 10 else f"{size / (1 << 20):.0f} MB"
