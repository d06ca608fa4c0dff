"""Servers that fell silent together an hour ago, for the portal: `python -m tests.support.services.silent NAME...`.

They are most of a cluster with one more at most, so that the portal, which has taken reports in all the time, waits
for them.
"""

import sys
from datetime import timedelta

import django


def main() -> None:
    django.setup()
    from django.utils import timezone

    from nodes.protocol.envelope import NodeKey
    from portal.hardware.acceptance import NOTHING
    from portal.hardware.models import Node, ReportsLane
    from portal.hardware.services.nodes import node_add
    from portal.hardware.states import NodeHealth

    now = timezone.now()
    before = now - timedelta(hours=1)
    ReportsLane.objects.update(open_since=before)
    for name in sys.argv[1:]:
        node = Node.objects.filter(name=name).first()
        node = node or node_add(name=name, public_key=NodeKey.generate().public, now=now)
        Node.objects.filter(pk=node.pk).update(health=NodeHealth.HEALTHY, last_report_at=before, accepted=NOTHING)


if __name__ == "__main__":
    main()
