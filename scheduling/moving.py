"""Those that run on loan, in their turn: who can move into the quota where it is does so, for the others the cells
that they would have are kept."""

from collections.abc import Iterable

from scheduling.decisions import Preempt
from scheduling.jobs import Job, TaskPlacement
from scheduling.promotion import promote
from scheduling.shapes import Choice, Shape, Unit
from scheduling.snapshot import Running
from scheduling.state import LIMIT, Lent, Line, Trial, on_loan
from scheduling.virtual import Owed, Seat, seats


class MovingIn:
    """Promotions of a pass. `unmoved` are virtual clusters of which a job could not move in where it is."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self.state = trial.state
        self.unmoved: set[str] = set()

    def turn(self, running: Running, job: Job, line: Line) -> set[str]:
        """Promotion in place; where it cannot be, the cells that the job would have stay its own. Answers with the
        chains where it could not be."""
        state = self.state
        cause = state.demotions.get(running.job.id)
        if cause is not None and (cause.cause in state.running or cause.cause in state.claims):
            return set()
        behind: set[str] = set()
        for part in self.parts(running, job):
            behind |= self._move(running.job.id, part, line)
        return behind

    def parts(self, running: Running, job: Job) -> list[Lent]:
        """What of the job moves together: all that a gang has on loan, else each task. Nothing of what is leaving. It
        is worked out once for as long as the job runs as it does."""
        known = self.state.memory.lent
        found = known.get(running.job.id)
        if found is None or found[0] is not running or found[1] is not job:
            if len(known) >= LIMIT:
                known.clear()
            found = known[running.job.id] = running, job, self._work_out(running, job)
        return found[2]

    def _work_out(self, running: Running, job: Job) -> list[Lent]:
        lent = tuple([task.placement.task for task in running.tasks if on_loan(task) and not task.leaving])
        if not lent or running.job.gang and any(task.leaving for task in running.tasks):
            return []
        found = []
        for tasks in [lent] if running.job.gang else [(task,) for task in lent]:
            alike = job.gang and job.wanted == tasks
            shape = self.state.shapes.of(job if alike else running.job._replace(wanted=tasks, gang=True))
            places = [task.placement for task in running.tasks]
            found.append(Lent(tasks, shape, self._lies_in(places, shape.choices)))
        return found

    def _move(self, name: str, part: Lent, line: Line) -> frozenset[str]:
        """These tasks of the job, all or none; answers with their chains where they stay on loan."""
        state, running = self.state, self.state.running[name]
        tasks, shape, number = part
        if number < 0 or not line.held.isdisjoint(shape.choices[number].chains):
            return frozenset()
        choice, before = shape.choices[number], line.owed.number
        fresh = self._seats(running.job, shape, number, line.owed)
        if fresh is None:
            if self._owe_below(running.job, shape, number, line.owed):
                return choice.chains
            if not state.desk.holdable.choice(running.job.vc, shape, number):
                return frozenset()
            line.held |= choice.chains
            return choice.chains
        placements = promote(state.desk, running, tasks, fresh, line.owed)
        if placements is not None:
            self.trial.busy.add(running.job.vc)
            self.trial.promote(running.job, placements)
            return frozenset()
        self.unmoved.add(running.job.vc)
        line.owed.owe(fresh, state.memory.seatings(running.job.vc).after(before, shape.number, number))
        return choice.chains

    def _seats(self, job: Job, shape: Shape, number: int, owed: Owed) -> list[Seat] | None:
        """Where its tasks would go if they started now. That follows from the virtual cluster's own cells and those
        that are owed to others: it is worked out once for as long as these stay what they are."""
        desk, unit = self.state.desk, shape.choices[number].units[0]
        known = self.state.memory.seatings(job.vc).of(desk.ledger.virtual_state.get(job.vc, -1))
        key = owed.number, shape.number, number
        if key not in known:
            known[key] = _seats_beside(owed, unit) if desk.enough_quota(job, unit) else None
        return known[key]

    def _owe_below(self, job: Job, shape: Shape, number: int, owed: Owed) -> list[Seat]:
        """Cells of lower priorities of its team, which the job would have if it did not run on loan instead, are owed
        to it: those behind it may have the others. Answers with them; none where these are not enough."""
        below = self.state.desk.lower.below(job)
        if below is None:
            return []
        freed = below.freed_below(job.priority)
        found = self.state.desk.seats(job, shape.choices[number].units[0], freed, 0, owed) or []
        if found:
            owed.owe(found, self.state.memory.seatings(job.vc).another())
        return found

    def keep(self, answer: Preempt, shape: Shape, line: Line) -> list[Seat]:
        """The cells that the job could have now are owed to it, as if it ran on loan; answers with them."""
        number, before = self._lies_in(answer.placements, shape.choices), line.owed.number
        fresh = self._seats(answer.job, shape, number, line.owed)
        if fresh is None:
            return self._owe_below(answer.job, shape, number, line.owed)
        line.owed.owe(fresh, self.state.memory.seatings(answer.job.vc).after(before, shape.number, number))
        return fresh

    def _lies_in(self, places: Iterable[TaskPlacement], choices: tuple[Choice, ...]) -> int:
        """The first choice to which all these nodes belong; -1: none."""
        layout, chains = self.state.desk.ledger.layout, set()
        for one in places:
            place = layout.position.get(one.node)
            if one.leaves and place is not None:
                chains.add(layout.chains[place])
        return next((number for number, choice in enumerate(choices) if chains <= choice.chains), -1)


def _seats_beside(owed: Owed, unit: Unit) -> list[Seat] | None:
    found: list[Seat] = []
    for pool in unit.pools:
        seated = seats(owed.share(pool.name), pool.parts)
        if seated is None:
            return None
        found += seated
    return found
