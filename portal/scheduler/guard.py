"""The guard around each decision: a short transaction that checks the world is still as the plan saw it."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping

from django.db import IntegrityError, OperationalError, transaction
from django.db.models import F, Q

from portal.common.failpoint import failpoint
from portal.hardware.models import Node, takes_tasks
from portal.hardware.services.generations import nodes_hold
from portal.jobs.services.placement import NoPortLeft, Overtaken
from portal.jobs.services.transitions import jobs_hold

log = logging.getLogger(__name__)


class Guard:
    """Tracks the nodes' placement versions as read, raised by what has been carried out since.

    Whoever changes who holds or claims leaf cells of a node, or by what right, raises its version: of two schedulers'
    decisions about one node only one is applied.
    """

    def __init__(self, nodes: Mapping[str, int], versions: Mapping[str, int]) -> None:
        self._nodes, self._versions = nodes, dict(versions)
        self.no_ports: list[NoPortLeft] = []
        """Decisions that found a node's ports used up."""

    def carry_out(
        self,
        what: str,
        work: Callable[[], None],
        *,
        jobs: Collection[int],
        placed_on: Collection[str] = (),
        touched: Collection[str] = (),
    ) -> bool:
        """Runs ``work`` in a transaction that locks these jobs' rows and raises the versions of these nodes; those in
        ``placed_on`` must take tasks. False: overtaken, and nothing is changed."""
        names = {*placed_on, *touched}
        try:
            with transaction.atomic():
                failpoint("apply.begin")
                jobs_hold(jobs)
                nodes_hold(self._nodes[name] for name in names)
                self._claim(names - {*placed_on}, well=False)
                self._claim({*placed_on}, well=True)
                failpoint("apply.nodes")
                work()
                failpoint("apply.rows")
        except (Overtaken, IntegrityError, OperationalError) as error:
            # By another scheduler or a report; it may be the database that notices (a deadlock, a busy file).
            log.info("%s skipped, decided again: %r", what, error)
            return False
        except NoPortLeft as error:
            log.warning("%s skipped: %s", what, error)
            self.no_ports.append(error)
            return False
        failpoint("apply.committed")
        for name in names:
            self._versions[name] += 1
        return True

    def _claim(self, names: Collection[str], *, well: bool) -> None:
        if not names:
            return
        by_version: dict[int, list[int]] = defaultdict(list)
        for name in names:
            by_version[self._versions[name]].append(self._nodes[name])
        as_read = (Q(placement_version=version, pk__in=ids) for version, ids in by_version.items())
        rows = Node.objects.filter(Q(*as_read, _connector=Q.OR))
        if well:
            rows = rows.filter(takes_tasks())
        if rows.update(placement_version=F("placement_version") + 1) != len(names):
            raise Overtaken
