"""A training as PyTorch's documentation writes it, which knows nothing of Berth but its job folder, and what it noted
of itself there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from tests.support.people.person import Person
from tests.support.run.waiting import wait_until

SAVES_EVERY = 20
TRAINER = f"""
import json, os, time, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
folder = os.environ["BERTH_JOB_DIR"]
saved = folder + "/last.pt"
torch.manual_seed(1)
truth, start = torch.randn(32, 1), torch.randn(32, 1)
model = DistributedDataParallel(torch.nn.Linear(32, 1, bias=False))
optimizer = torch.optim.SGD(model.parameters(), lr=0.002)
step = 0
with torch.no_grad():
    model.module.weight.copy_(start.T)
if os.path.exists(saved):
    state = torch.load(saved)
    model.load_state_dict(state["model"])
    step = state["step"]

def note(**what):
    with open(folder + "/history", "a") as file:
        file.write(json.dumps(dict(what, world=world, at=time.time())) + "\\n")

enough = torch.zeros(1)
while not enough or step % {SAVES_EVERY}:
    torch.manual_seed(step + 2)
    inputs = torch.randn(96, 32)
    mine = slice(rank * 96 // world, (rank + 1) * 96 // world)
    loss = ((model(inputs[mine]) - inputs[mine] @ truth) ** 2).sum() * world / 96
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    step += 1
    whole = loss.detach() / world
    dist.all_reduce(whole)
    if rank == 0:
        note(step=step, loss=whole.item())
        if step % {SAVES_EVERY} == 0:
            torch.save({{"model": model.state_dict(), "step": step}}, saved + ".new")
            os.replace(saved + ".new", saved)
            note(saved=step)
    enough.fill_(os.path.exists(folder + "/enough"))
    dist.broadcast(enough, 0)
    time.sleep(0.1)
dist.barrier()
dist.destroy_process_group()
"""


class Step(NamedTuple):
    """A step of the training by so many processes."""

    number: int
    world: int
    loss: float
    at: float


class Change(NamedTuple):
    """The first step with another number of processes, and the last before."""

    before: Step
    after: Step

    @property
    def grew(self) -> bool:
        """Whether there are more processes now."""
        return self.after.world > self.before.world

    @property
    def pause_s(self) -> float:
        """How long no step was done."""
        return self.after.at - self.before.at


@dataclass(frozen=True)
class History:
    """What the training did, in the order in which it did it."""

    steps: list[Step]
    saved: list[tuple[int, int]]  # how many steps were done, of which the last was saved

    @property
    def changes(self) -> list[Change]:
        """Where it went on with another number of processes."""
        return [Change(*two) for two in pairwise(self.steps) if two[0].world != two[1].world]

    def check(self) -> None:
        """Each step follows the one before, or begins anew after the last that was saved; what is done again has the
        same loss."""
        losses: dict[int, float] = {}
        saves = dict(self.saved)
        last_saved = 0
        for number, (before, after) in enumerate(pairwise(self.steps), 1):
            last_saved = saves.get(number, last_saved)
            losses[before.number] = before.loss
            if after.number != before.number + 1:
                assert after.number - 1 in {last_saved, last_saved + SAVES_EVERY}, (before, after, last_saved)
                assert 0 <= before.number - (after.number - 1) < SAVES_EVERY + 1, (before, after)
            if after.number in losses:
                assert abs(after.loss - losses[after.number]) <= 1e-3 * losses[after.number] + 1e-6, (before, after)

    @property
    def repeated(self) -> int:
        """How many steps were done once more."""
        return len(self.steps) - len({step.number for step in self.steps})


class Training:
    """A job of this training, of `least` to `most` tasks."""

    def __init__(self, person: Person, image: str, *, least: int, most: int) -> None:
        self.person, self.most = person, most
        commands = f"cat >train.py <<'END'\n{TRAINER}END", 'wc -l <"$BERTH_PEERS"', "torchrun train.py"
        self.job = person.run(
            *commands, image=image, name="grows", instances=least, gpu=1, memory_mb=1024,
            berth={"elastic": {"worker": {"max": most}}, "gracePeriod": 10},
        )  # fmt: skip

    @property
    def folder(self) -> Path:
        """The job's folder, as its storage has it."""
        (found,) = self.person.stack.jobs_root.glob("**/history")
        return found.parent

    def history(self) -> History:
        """What it has noted until now."""
        steps, saved = list[Step](), list[tuple[int, int]]()
        for told in self._notes():
            if "saved" in told:
                saved.append((len(steps), int(told["saved"])))
            else:
                steps.append(Step(int(told["step"]), int(told["world"]), told["loss"], told["at"]))
        return History(steps, saved)

    def _notes(self) -> Iterator[dict[str, float]]:
        for line in (self.folder / "history").read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                yield json.loads(line)

    def wait_world(self, size: int, *, steps: int = SAVES_EVERY + 5, deadline_s: float = 120) -> None:
        """Wait until so many processes have done some steps together."""

        def together() -> bool:
            done = self.history().steps if any(self.person.stack.jobs_root.glob("**/history")) else []
            return len(done) >= steps and {one.world for one in done[-steps:]} == {size}

        wait_until(together, f"{size} to train together", deadline_s=deadline_s, most_s=0.5)

    def finish(self) -> None:
        """Let it end by itself."""
        enough = self.folder / "enough"
        enough.touch()
        self.person.wait(self.job, "succeeded", deadline_s=120)


def draw(history: History, path: Path) -> None:
    """The loss over the steps, each number of processes in a colour of its own, with a mark where it changed. Needs
    matplotlib."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    axes = figure.subplots()
    axes.plot([one.number for one in history.steps], [one.loss for one in history.steps], linewidth=1, color="#4269d0")
    for before, after in history.changes:
        axes.axvline(after.number, color="#ff725c" if after.world < before.world else "#6cc5b0", linewidth=0.8)
        label = f"{before.world}→{after.world}"
        axes.text(after.number, 1.01, label, transform=axes.get_xaxis_transform(), fontsize=7, ha="center")
    axes.set_yscale("log")
    axes.set_ylabel("loss")
    axes.set_xlabel("step; lines: it grew (green) or shrank (red)")
    axes.margins(x=0.01)
    figure.savefig(path, dpi=110)
