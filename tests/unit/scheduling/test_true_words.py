"""Sentences that were false: of GPUs where CPU was meant, of room that is not free, of shares where cells are kept."""

from dataclasses import replace

from scheduling import Code, PinnedCell, Usage
from tests.unit.scheduling.builders import cluster, engine, job, node, role, running, wait_of


def test_cpu_that_another_team_gives_back_is_not_called_a_place_in_the_quota() -> None:
    """Neither when it was decided nor while the other is on its way out."""
    made = running(cluster(node("a", 4, cpu=32), one=3, two=1), job("f", role(cpu=26), vc="one"))
    made.submit(job("owner", role(cpu=8), vc="two", at=1))
    said = "CPU and memory are being taken back for it from job f; it starts when that has ended"
    plan = made.plan(1)
    assert wait_of(plan, "owner").reason.sentence == said
    made.carry_out(plan)
    assert wait_of(made.plan(2), "owner").reason.sentence == said


def test_what_others_have_on_loan_is_not_called_free() -> None:
    there = cluster(node("n0", 4, cpu=64, keep_cpu=0, keep_memory=0), vision=4)
    made = running(there, job("own", role(cpu=16)), job("lent", role(cpu=24), priority=-1))
    made.submit(job("large", role(cpu=49), at=1))
    reason = wait_of(made.plan(1), "large").reason
    assert (reason.code, reason.numbers["free_cpu_milli"]) == (Code.RESOURCES, 24_000)
    assert "n0, has 24 CPU" in reason.sentence


def test_a_pinned_cell_that_is_gone_is_what_its_jobs_wait_for() -> None:
    described = cluster(node("n0", 2), node("n1", 2), vision=2)
    shaped = replace(described, nodes=tuple(replace(one, shape="box") for one in described.nodes))
    team = replace(shaped.virtual_clusters[0], pinned=("corner",))
    made = engine(
        replace(shaped, virtual_clusters=(team,), pinned_cells=(PinnedCell("corner", "box", "n0"),)),
        job("j", replace(role(), pinned_cell="corner")),
    )
    made.reconfigure(shaped)
    reason = wait_of(made.plan(1), "j").reason
    assert (reason.code, reason.sentence) == (Code.QUOTA, "team vision has no pinned cell corner")


def test_who_comes_first_since_cells_are_kept_is_not_called_a_user_who_has_used_less() -> None:
    made = running(cluster(node("a", 4), vision=4), job("runs", role(gpus=2), user="carol"))
    made.submit(job("big", role(gpus=4), user="alice", at=1))
    made.carry_out(made.plan(1))
    assert made.snapshot().reservations == ("big",)
    made.note(Usage("vision", "alice", "A100", 0, 100 * 4 * 3_600_000))
    made.submit(job("second", role(), user="bob", at=2))
    reason = wait_of(made.plan(3), "second").reason
    assert reason.sentence == "1 job of the team comes first: 1 has cells kept already"
