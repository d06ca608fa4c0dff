"""Commands about the cluster: the queue, virtual clusters, nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Literal

import typer
from rich.table import Table

from berth.cli import completion
from berth.cli.jobs import AsJson, session
from berth.cli.screen import cores, memory, say, show, show_json, table, when
from berth.cluster import Intent
from berth.model.cluster import GpuReading, Node, Share, UserShare, VirtualCluster, VirtualClusterDetail
from berth.model.jobs import Queued

nodes = typer.Typer(no_args_is_help=True, help="The GPU servers.")
NodeName = Annotated[str, typer.Argument(metavar="NODE", help="Its name.", autocompletion=completion.nodes)]
Reason = Annotated[str, typer.Option("--reason", "-m", help="Shown to everybody.")]


def queue(
    ctx: typer.Context,
    vc: Annotated[str | None, typer.Option(help="Of this virtual cluster alone.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what waits, in the scheduler's order. Of other teams' jobs you see owner and size."""
    with session(ctx).client() as client:
        found = list(client.queue(vc=vc))
    show_json(found) if as_json else show(queue_table(found))


def vcs(
    ctx: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(metavar="VC", help="One of them, with its rules.", autocompletion=completion.virtual_clusters),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the virtual clusters: quota, in use, borrowed, unused (of these out of service)."""
    with session(ctx).client() as client:
        if name is None:
            found = list(client.virtual_clusters.list())
            show_json(found) if as_json else show(vc_table(found))
            return
        one = client.virtual_clusters.get(name)
        users = client.virtual_clusters.shares(name)
    if as_json:
        show_json({"virtual_cluster": one, "users": users})
        return
    show(vc_table([one]), "", *_rules(one))
    if users:
        show("", _shares(users))


@nodes.command("ls")
def node_ls(ctx: typer.Context, as_json: AsJson = False) -> None:
    """List the nodes with their GPUs."""
    with session(ctx).client() as client:
        found = list(client.nodes.list())
    show_json(found) if as_json else show(node_table(found))


@nodes.command("show")
def node_show(ctx: typer.Context, node: NodeName, as_json: AsJson = False) -> None:
    """Show a node: what its GPUs do now, and who holds them."""
    with session(ctx).client() as client:
        found = client.nodes.get(node)
        readings = {} if as_json else {one.uuid: one.reading for one in client.gpus(node=found.name)}
    if as_json:
        show_json(found)
        return
    held = table(("GPU", "MODEL", ">MEMORY", ">USED", ">SM", "VC", "USER", "JOB", "*"), _gpus(found, readings))
    show(node_table([found]), "", held)


def _set(ctx: typer.Context, node: str, intent: Intent, reason: str, as_json: bool) -> None:
    with session(ctx).client() as client:
        found = client.nodes.set_intent(node, intent, reason=reason)
    show_json(found) if as_json else show(f"node {found.name} is {found.intent}")


@nodes.command("drain")
def node_drain(ctx: typer.Context, node: NodeName, reason: Reason = "", as_json: AsJson = False) -> None:
    """Accept no new tasks on a node and move the running ones away. For administrators."""
    _set(ctx, node, "draining", reason, as_json)


@nodes.command("cordon")
def node_cordon(ctx: typer.Context, node: NodeName, reason: Reason = "", as_json: AsJson = False) -> None:
    """Accept no new tasks on a node; the running ones go on. For administrators."""
    _set(ctx, node, "cordoned", reason, as_json)


@nodes.command("open")
def node_open(ctx: typer.Context, node: NodeName, reason: Reason = "", as_json: AsJson = False) -> None:
    """Let a node take tasks again. For administrators."""
    _set(ctx, node, "open", reason, as_json)


@nodes.command("accept")
def node_accept(
    ctx: typer.Context,
    node: NodeName,
    cpu_tasks: Annotated[
        bool | None,
        typer.Option(help="Whether tasks without GPUs may run there; else it stays (new: yes, unless a file said no)."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Accept what it claims now, and do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Accept a node that has joined, or what it claims beyond what was accepted. For administrators."""
    with session(ctx).client() as client:
        claims = client.nodes.get(node).claims
        if claims and not yes:
            for name, value in claims.items():
                say(f"- {name}: {_claimed(value)}")
            if not typer.confirm("Accept this?", err=True):
                raise typer.Exit(1)
        # What was shown is sent along: nothing counts that was claimed while somebody read.
        found = client.nodes.accept(node, claims=claims or None, cpu_tasks=cpu_tasks)
    show_json(found) if as_json else show(f"node {found.name} is accepted; {_cpu_tasks(found)}")


def _claimed(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_claimed(one)}" for name, one in value.items()) or "-"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "-"
    return str(value) or "-"


def _cpu_tasks(node: Node) -> str:
    return f"tasks without GPUs: {'on' if node.cpu_tasks else 'off'}"


@nodes.command("cpu-tasks")
def node_cpu_tasks(
    ctx: typer.Context,
    node: NodeName,
    state: Annotated[Literal["on", "off"], typer.Argument(metavar="on|off", help="Whether they may run there.")],
    as_json: AsJson = False,
) -> None:
    """Say whether tasks without GPUs may be placed on a node; those that run there go on. For administrators."""
    with session(ctx).client() as client:
        found = client.nodes.set_cpu_tasks(node, state == "on")
    show_json(found) if as_json else show(f"node {found.name}: {_cpu_tasks(found)}")


@nodes.command("remove")
def node_remove(
    ctx: typer.Context,
    node: NodeName,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be short without it.")] = False,
    as_json: AsJson = False,
) -> None:
    """Take a node on which nothing runs out of the cluster; what ran on it stays known. For administrators."""
    with session(ctx).client() as client:
        done = client.nodes.remove(node, dry_run=dry_run)
    if as_json:
        show_json(done)
        return
    show(f"node {node} would be removed" if done.dry_run else f"node {node} is removed")
    for sentence in done.shortages:
        show(f"short: {sentence}")
    for job in done.demoted:
        show(f"on loan: {job.label} of {job.vc}, {job.gpus} GPUs")
    for job in done.preempted:
        show(f"taken back: {job.label} of {job.vc}, {job.gpus} GPUs")
    for waiting in done.stranded:
        show(f"may run on no other node: {waiting.label} of {waiting.vc}")


# ---------------------------------------------------------------- tables, which `berth top` shows as well


def queue_table(found: Sequence[Queued]) -> Table:
    """What waits."""
    columns = (">PLACE", "VC", "USER", "JOB", ">GPUS", ">PRIORITY", "SUBMITTED", "STARTS ABOUT", "*WHY")
    return table(columns, (_waiting(one) for one in found))


def _waiting(one: Queued) -> tuple[object, ...]:
    start = when(one.start.p50) if one.start else ""
    job = f"{one.label} ({one.job})" if one.label else "-"
    return one.place, one.vc, one.user, job, one.gpu_count, one.priority, one.submitted_at, start, one.waiting_message


def _rules(vc: VirtualClusterDetail) -> tuple[Table, str, Table]:
    quota = ((line.cell_type, line.chain, line.count, line.gpus) for line in vc.quota)
    rules = {
        "weight": vc.weight,
        "borrow by default": vc.default_borrow,
        "highest class of members": vc.member_class,
        "highest class of leads": vc.lead_class,
        "GPUs of one user": vc.user_gpus,
        "GPUs of prod and above": vc.class_gpus,
        "GB of logs kept": vc.log_quota_gb,
        "profile of containers": vc.default_profile,
        "jobs of several tasks": "accepted" if vc.host_network else "refused (no host network)",
    }
    named = (row for row in rules.items() if row[1] is not None)
    return table(("CELLS", "CHAIN", ">COUNT", ">GPUS"), quota), "", table(("RULE", ""), named)


def _shares(users: Sequence[UserShare]) -> Table:
    shown = ((one.user, "" if one.share is None else f"{one.share:.0%}", one.running, one.waiting) for one in users)
    return table(("USER", ">SHARE OF LATE", ">RUNNING", ">WAITING"), shown)


def vc_table(found: Sequence[VirtualCluster]) -> Table:
    """Virtual clusters, a row for each kind of GPU."""
    return table(("VC", "YOU", "SKU", ">QUOTA", ">IN USE", ">BORROWED", ">UNUSED"), _vcs(found))


def _vcs(found: Sequence[VirtualCluster]) -> Iterator[tuple[object, ...]]:
    for vc in found:
        for gpus in vc.gpus:
            yield vc.name, vc.role, gpus.sku, gpus.quota, gpus.guaranteed, gpus.borrowed, _unused(gpus)
        if not vc.gpus:
            yield vc.name, vc.role, "", 0, 0, 0, 0


def _unused(gpus: Share) -> str:
    """Of the quota; in brackets those that cannot be had, since their hardware is out of service."""
    return f"{gpus.free} ({gpus.out_of_service} out)" if gpus.out_of_service else str(gpus.free)


def node_table(found: Sequence[Node]) -> Table:
    """Nodes with what of them is held."""
    return table(("NODE", "INTENT", "HEALTH", "SKU", ">GPUS", ">CPU", ">MEMORY", "*"), (_node(node) for node in found))


def _node(node: Node) -> tuple[object, ...]:
    held = sum(gpu.holder is not None for gpu in node.gpus)
    faults = [f"GPU {gpu.index}: {gpu.fault}" for gpu in node.gpus if gpu.fault]
    reason = "; ".join(filter(None, [node.intent_reason, node.health_reason, node.clock_fault, *faults]))
    return (
        node.name, node.intent, node.health, node.sku, f"{held}/{len(node.gpus)}",
        f"{cores(node.cpu_milli_held)}/{cores(node.cpu_milli)}",
        f"{memory(node.memory_mb_held)}/{memory(node.memory_mb)}", reason,
    )  # fmt: skip


def _gpus(node: Node, readings: Mapping[str, GpuReading | None]) -> Iterator[tuple[object, ...]]:
    for gpu in node.gpus:
        now = readings.get(gpu.uuid)
        who = gpu.holder
        held = (who.vc, who.user, who.label or "-") if who else ("", "", "")
        borrowed = "borrowed" if who and who.standing == "borrowed" else ""
        filled = "" if now is None or now.memory_used_mb is None else f"{memory(now.memory_used_mb)} / "
        shares = (_share(now.utilisation), _share(now.sm_active)) if now else ("-", "-")
        yield gpu.index, gpu.model, f"{filled}{memory(gpu.memory_mb)}", *shares, *held, gpu.fault or borrowed


def _share(percent: int | None) -> str:
    return "-" if percent is None else f"{percent} %"
