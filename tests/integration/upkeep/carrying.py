"""Gives an installation what rows are not: `python -m tests.integration.upkeep.carrying` in its environment.

A user's code, uploaded as the portal takes it, and the curves of two task attempts, one that runs and one that is over.
Prints the code's name.
"""

import io

import django


def main() -> None:
    django.setup()
    from django.conf import settings
    from django.utils import timezone

    from portal.accounts.models import User
    from portal.code.services import code_upload
    from portal.jobs.models import TaskAttempt
    from portal.metrics.points import OF_TASK, Point
    from portal.metrics.record import Records
    from portal.teams.selectors.visible import vcs_for_submit
    from tests.support.run.archives import HELLO, packed

    user = next(user for user in User.objects.order_by("pk") if vcs_for_submit(user).exists())
    code, _ = code_upload(user=user, stream=io.BytesIO(packed(HELLO)), now=timezone.now())
    curve = [Point(at, 10, 2, [(50.0, 40.0, 60.0)] * len(OF_TASK)) for at in range(1000, 1600, 10)]
    for over in (False, True):
        run = TaskAttempt.objects.filter(ended_at__isnull=not over).order_by("pk")[0]
        Records(settings.METRICS_DIR).add(str(run.pk), curve, age_s=0, over=over)
    print(code.name)


if __name__ == "__main__":
    main()
