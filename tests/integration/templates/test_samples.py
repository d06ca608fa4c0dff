"""A newcomer's first job, on a laptop: the gallery's samples on the server that ``make demo`` makes of this machine."""

from dataclasses import replace
from pathlib import Path

from django.utils import timezone

from portal.accounts.models import User
from portal.embedded.options import ADMIN, SIMULATED
from portal.embedded.seed import SAMPLE_VCS, quotas_share, seed
from portal.jobs.services.submit import job_submit
from portal.jobs.states import JobState
from portal.teams.models import QuotaLine
from portal.templates.samples import samples
from tests.support.cluster.world import World


def test_each_sample_starts_on_what_the_demo_promises_beside_simulated_gpus(world: World, tmp_path: Path) -> None:
    node = world.node("laptop", gpus=4)
    node.inventory = replace(
        node.inventory,
        cpu_milli=1000 * int(SIMULATED["BERTH_NODE_SIMULATED_CPUS"]), there_cpu_milli=2000,
        memory_mb=1024 * int(SIMULATED["BERTH_NODE_SIMULATED_MEMORY_GB"]), there_memory_mb=8192,
        storages=(str(tmp_path / "jobs"),),
    )  # fmt: skip
    node.report()
    seed(node_name=node.name, node_key=node.key.public, jobs_folder=tmp_path / "jobs", now=timezone.now())
    node.report()
    QuotaLine.objects.all().delete()
    quotas_share(now=timezone.now())
    admin, team = User.objects.get(username=ADMIN), next(iter(SAMPLE_VCS))
    waiting = {}
    for sample in samples():
        text = f"{sample.file}\ndefaults:\n  virtualCluster: {team}\n"
        job = job_submit(user=admin, text=text, now=timezone.now())
        world.settle()
        job.refresh_from_db()
        if job.state != JobState.RUNNING:
            waiting[sample.name] = job.waiting_code
        node.finish()
        world.settle()
    assert waiting == {}
