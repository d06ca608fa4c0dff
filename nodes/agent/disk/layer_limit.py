"""Limit on what a container writes into its own layer: warned once, and stopped when it goes on."""

from __future__ import annotations

from dataclasses import dataclass

from nodes.protocol import wordings

GB = 1 << 30


class LayerSize(int):
    """A number of bytes counted. ``began_ms``: when the count began, unix ms; what was deleted since may be
    included."""

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
        """The warning for the task's log and notice."""
        return (
            f"its container has written {_gb(taken)} outside all storages; more than {_gb(self.most)} are not allowed: "
            f"it is stopped in {self.grace_s:.0f} s unless it deletes some"
        )

    def relief(self, taken: int) -> str:
        """The log's note for a task that was warned and has deleted enough."""
        return f"its container has room again, with {_gb(taken)} outside all storages: it is not stopped for that"

    def verdict(self, taken: int) -> str:
        """The reason of the stop."""
        return wordings.LAYER_FULL(taken=_gb(taken), most=_gb(self.most))


def _gb(size: int) -> str:
    return f"{size / GB:.1f} GB" if size >= GB // 10 else f"{size / (1 << 20):.0f} MB"
