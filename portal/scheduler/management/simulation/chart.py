"""Charts a simulation: GPUs in use, guaranteed and borrowed, and below them the waiting jobs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from scheduling.simulator.timeline import Moment

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DAY_MS = 86_400_000
GUARANTEED, BORROWED, WAITING = "#4269d0", "#efb118", "#ff725c"


class NoPlots(RuntimeError):
    """The plotting library is missing."""

    def __init__(self) -> None:
        super().__init__("--plot needs matplotlib: .venv/bin/uv pip install -r requirements-plot.txt")


def ensure_drawing() -> None:
    """Raises NoPlots if matplotlib is missing."""
    try:
        import matplotlib.figure  # noqa: F401  imported only where somebody plots: it is not always installed
    except ImportError:
        raise NoPlots from None


def draw(path: Path, moments: Sequence[Moment], gpus: int, title: str) -> None:
    """Write the chart in the format of the file name. Raises NoPlots."""
    ensure_drawing()
    from matplotlib.figure import Figure

    days = [moment.at_ms / DAY_MS for moment in moments]
    figure = Figure(figsize=(10, 5.5), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    _in_use(above, days, moments, gpus)
    below.fill_between(days, [one.waiting_jobs for one in moments], step="post", color=WAITING, linewidth=0)
    below.set_ylabel("jobs waiting")
    below.set_xlabel("days")
    below.set_ylim(bottom=0)
    below.margins(x=0)
    figure.suptitle(title, fontsize=11)
    figure.savefig(path, dpi=110)


def _in_use(axes: Axes, days: Sequence[float], moments: Sequence[Moment], gpus: int) -> None:
    guaranteed = [one.guaranteed for one in moments]
    every = [one.guaranteed + one.borrowed for one in moments]
    axes.fill_between(days, guaranteed, step="post", color=GUARANTEED, linewidth=0, label="guaranteed")
    axes.fill_between(days, every, guaranteed, step="post", color=BORROWED, linewidth=0, label="borrowed")
    axes.axhline(gpus, color="black", linewidth=0.8, linestyle="--", label=f"all {gpus:,} GPUs")
    axes.set_ylabel("GPUs in use")
    axes.set_ylim(0, gpus * 1.05)
    axes.legend(loc="lower right", fontsize=8)
