"""Virtual clusters, hardware, storages, templates and alerts."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

from berth.model.base import Answer


class Share(Answer, frozen=True, kw_only=True):
    """A virtual cluster's GPUs of one SKU. ``free``: unused ones of its quota; of these ``lent`` are on loan to others,
    and at least ``out_of_service`` cannot be had now."""

    sku: str
    quota: int
    guaranteed: int
    borrowed: int
    free: int
    lent: int
    out_of_service: int = 0


class VirtualCluster(Answer, frozen=True, kw_only=True):
    """A virtual cluster; ``role`` is that of whoever asks (None: no member)."""

    name: str
    description: str
    role: str | None
    gpus: list[Share]


class QuotaLine(Answer, frozen=True, kw_only=True):
    """Cells of one type, guaranteed to a virtual cluster."""

    vc: str
    cell_type: str
    chain: str
    count: int
    gpus: int


class Doomed(Answer, frozen=True, kw_only=True):
    """Cells of a quota that the hardware cannot provide now."""

    chain: str
    cell_type: str
    cells: int


class LoanLimit(Answer, frozen=True, kw_only=True):
    """Limits of lending for one SKU, in GPUs; None: no limit."""

    sku: str
    max_borrow: int | None
    max_lend: int | None


class FirmRight(Answer, frozen=True, kw_only=True):
    """A user's right to jobs that are never preempted."""

    user: str
    gpus: int
    last_day: date


class VirtualClusterDetail(VirtualCluster, frozen=True, kw_only=True):
    """A virtual cluster with its quota and its rules."""

    quota: list[QuotaLine]
    pinned_cells: list[str]
    weight: int
    user_factor: float | None
    user_gpus: int | None
    class_gpus: int | None
    default_borrow: str
    member_class: str
    lead_class: str
    log_quota_gb: int | None = None
    default_profile: str
    host_network: bool
    parking: bool
    doomed: list[Doomed]
    loan_limits: list[LoanLimit]
    firm_rights: list[FirmRight]


class UserShare(Answer, frozen=True, kw_only=True):
    """A user's recent share of a quota (0: nothing, 1: all of it all the time), and jobs."""

    user: str
    share: float | None
    running: int
    waiting: int


class Holder(Answer, frozen=True, kw_only=True):
    """The holder of a GPU; its job is named for those who may see it."""

    vc: str
    user: str
    standing: str
    job: int | None
    label: str | None
    role: str | None
    index: int | None


class Gpu(Answer, frozen=True, kw_only=True):
    """A GPU of a node. ``fault``: why no task may be placed on it; ``told``: what its node says of it now."""

    index: int
    uuid: str
    sku: str
    model: str
    memory_mb: int
    usable: bool
    fault: str
    told: str = ""
    holder: Holder | None


class ImageRule(Answer, frozen=True, kw_only=True):
    """Images that may run, by a shell pattern; ``vc`` None: in all virtual clusters without patterns of their own.
    ``profile``: as whom at most: ``root``: as the virtual cluster says, ``user``: never as root."""

    id: int
    pattern: str
    vc: str | None
    profile: str
    note: str
    created_at: datetime


class AlertSilence(Answer, frozen=True, kw_only=True):
    """A silence: nobody is notified of the alert with this ``key`` until then, unless it is worse than ``severity``."""

    id: int
    key: str
    name: str
    severity: str
    reason: str
    author: str
    created_at: datetime
    until: datetime


class Alert(Answer, frozen=True, kw_only=True):
    """Something that is wrong now. ``severity``: critical, warning or info; ``kind`` and ``name`` say of what; ``key``
    is what it is silenced by; ``silence``: None while it is not silenced."""

    key: str
    code: str
    severity: str
    kind: str
    name: str
    message: str
    advice: str
    since: datetime | None
    virtual_clusters: list[str]
    silence: AlertSilence | None


class Template(Answer, frozen=True, kw_only=True):
    """A job file that is kept. ``visibility``: private, vc or public; ``author``: who wrote it last."""

    id: int
    name: str
    description: str
    visibility: str
    vc: str | None
    author: str
    changed_at: datetime


class TemplateDetail(Template, frozen=True, kw_only=True):
    """A template with its file."""

    file: str


class Storage(Answer, frozen=True, kw_only=True):
    """A folder that nodes mount; ``nodes`` are the healthy ones that offer it now, ``missing`` those that do not,
    ``untied`` those that an administrator untied from it, ``unguarded`` those where setuid programs in it count."""

    name: str
    kind: str
    root: str
    export: str
    options: str
    read_only: bool
    per_user: bool
    must_be_mount: bool
    jobs: bool
    everyone: bool
    virtual_clusters: list[str]
    nodes: list[str]
    missing: list[str]
    untied: list[str] = []
    unguarded: list[str] = []


class StorageServer(Answer, frozen=True, kw_only=True):
    """An accepted server and a storage. ``tied``: it answers for files there and gets tasks that need it; ``offered``:
    it has it, and its folder was accepted; ``fault``: why it has it not; ``proof``: whether it read there what the
    server ``proof_by`` had written (seen, unseen, or untried because of ``proof_why``; empty: not yet)."""

    node: str
    health: str
    tied: bool
    offered: bool
    fault: str
    proof: str
    proof_by: str
    proof_why: str


class GpuProcess(Answer, frozen=True, kw_only=True):
    """A process on a GPU; ``utilisation``: percent of the GPU's time that it had of late; ``foreign``: of no task."""

    pid: int
    memory_mb: int
    utilisation: int | None
    foreign: bool


class GpuReading(Answer, frozen=True, kw_only=True):
    """A reading of a GPU: MB, watts, degrees Celsius, the others percent; None where it reports nothing. From Hopper on
    GPUs count their multiprocessors at work (``sm_active``), warps, tensor cores and memory bandwidth."""

    at: datetime
    utilisation: int | None
    sm_active: int | None = None
    sm_occupancy: int | None = None
    tensor_active: int | None = None
    dram_active: int | None = None
    memory_used_mb: int | None
    power_w: int | None
    temperature_c: int | None
    processes: list[GpuProcess] = []


class LeafGpu(Answer, frozen=True, kw_only=True):
    """A GPU of the cluster. ``state``: free, held, faulty or unavailable; ``cell``: its address as a leaf cell."""

    id: int
    node: str
    index: int
    cell: str | None
    uuid: str
    sku: str
    model: str
    memory_mb: int
    state: str
    fault: str
    holder: Holder | None
    reading: GpuReading | None


class UnknownContainer(Answer, frozen=True, kw_only=True):
    """A container on a server of which the portal knows nothing; its GPUs (UUIDs) are fenced until it is gone.
    ``folder``: its job's, on the server, where that is known."""

    attempt: str
    gpus: list[str]
    folder: str = ""
    seen_at: datetime
    stopped_by: str | None


class Node(Answer, frozen=True, kw_only=True):
    """A GPU server: ``intent`` is what an administrator wants of it, ``health`` what was found; ``closed_reason``: what
    closes it to new tasks by itself; ``pending``: it waits to be accepted; ``cpu_tasks``: tasks without GPUs may be
    placed on it, on a pending one once it is accepted; ``claims``: what it says beyond what was accepted."""

    name: str
    intent: str
    intent_reason: str
    health: str
    health_reason: str
    takes_tasks: bool = True
    closed_reason: str = ""
    clock_fault: str
    sku: str | None
    cell_type: str | None
    rack: str
    cpu_milli: int
    cpu_milli_held: int
    memory_mb: int
    memory_mb_held: int
    runtime: str
    simulated: bool
    address: str
    last_report_at: datetime | None
    pending: bool = False
    cpu_tasks: bool = True
    claims: dict[str, Any] = {}
    gpus: list[Gpu]
    unknown_containers: list[UnknownContainer] = []


class Demoted(Answer, frozen=True, kw_only=True):
    """A running job that loses its guarantee, or its GPUs; ``gpus``: how many of them that concerns."""

    id: int
    label: str
    vc: str
    gpus: int


class Stranded(Answer, frozen=True, kw_only=True):
    """A job that waits and may run on none of the servers that are left."""

    id: int
    label: str
    vc: str


class NodeRemoved(Answer, frozen=True, kw_only=True):
    """Effect of a server's removal, done or (``dry_run``) expected: the quotas with too little hardware left, as
    sentences, the jobs that lose their guarantee and run on, those whose GPUs are taken back, and those that wait and
    may run on no other server."""

    dry_run: bool
    shortages: list[str]
    demoted: list[Demoted]
    preempted: list[Demoted] = []
    stranded: list[Stranded] = []


class Sku(Answer, frozen=True, kw_only=True):
    """A hardware kind, counted in GPUs of the whole cluster; ``price``: of one for one hour; ``share``: what CPU
    and memory go with one."""

    sku: str
    gpu_model: str
    memory_mb: int
    price: Decimal | None
    share_cpu_milli: int
    share_memory_mb: int
    gpus: int
    usable: int
    held: int
    free: int
