"""Two servers and what they claim, as the portal has them: `python -m tests.support.cluster.claiming PENDING GROWN`.

The first waits to be accepted, the second claims more than was accepted. On both something answers without
authentication.
"""

import sys

import django


def main() -> None:
    django.setup()
    from django.utils import timezone

    from portal.hardware.acceptance import NOTHING
    from portal.hardware.models import Node

    now = timezone.now()
    claims = {
        "cpu_milli": 128_000, "memory_mb": 2_064_384, "address": "10.0.0.66", "runtime": "docker", "simulated": False,
        "storages": ["/srv/berth"], "gpus": {"NVIDIA H100 80GB HBM3": [8, 81_559]},
    }  # fmt: skip
    accepted = {**NOTHING, **claims, "cpu_milli": 64_000, "gpus": {"NVIDIA H100 80GB HBM3": [4, 81_559]}}
    told = {"listeners": [["docker", "127.0.0.1", 2375], ["metrics", "0.0.0.0", 9100]]}
    for name, of_before in zip(sys.argv[1:], (None, accepted), strict=True):
        Node.objects.create(
            name=name, health="healthy", accepted=of_before, claims=claims, last_report_at=now, inventory=told
        )


if __name__ == "__main__":
    main()
