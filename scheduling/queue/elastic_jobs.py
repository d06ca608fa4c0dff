"""Elastic jobs: which extra tasks run under which name, and which wait."""

from collections.abc import Collection, Mapping

from scheduling.model.elastic import EXTRA, Divided, whole_name
from scheduling.model.job import Job, TaskRef
from scheduling.model.snapshot import Running


class ElasticJobs:
    """`growing`: jobs by id, with their waiting extra tasks; `wholes`: those with running ones, and `extras` the names
    under which these run."""

    def __init__(self) -> None:
        self.growing: dict[str, Job] = {}
        self.wholes: dict[str, Job] = {}
        self.extras: dict[str, dict[TaskRef, str]] = {}

    def follow(self, divided: Divided) -> None:
        """Becomes what a snapshot says."""
        self.growing, self.wholes, self.extras = divided.growing, divided.wholes, {}
        for one in divided.snapshot.running if divided.wholes else ():
            self._enter(one)

    def ran(self, extra: Running, running: Mapping[str, Running]) -> None:
        """An extra task has come beside its gang, one of those that are `running`; without tasks, it has gone."""
        name = whole_name(extra.job.id)
        if extra.tasks:
            if name in running:
                self.wholes[name] = running[name].job
            self._enter(extra)
            self._no_longer_wanted(name, [task.placement.task for task in extra.tasks])
            return
        self.extras[name] = {task: one for task, one in self.extras[name].items() if one != extra.job.id}
        if not self.extras[name]:
            del self.extras[name]
            self.wholes.pop(name, None)

    def _enter(self, running: Running) -> None:
        if running.job.priority == EXTRA:
            mine = self.extras.setdefault(whole_name(running.job.id), {})
            mine.update((task.placement.task, running.job.id) for task in running.tasks)

    def _no_longer_wanted(self, name: str, tasks: Collection[TaskRef]) -> None:
        job = self.growing.get(name)
        left = tuple(task for task in job.wanted if task not in tasks) if job is not None else ()
        if job is not None and left:
            self.growing[name] = job.wanting(left)
        else:
            self.growing.pop(name, None)
