"""The pictures of `docs/pictures`: the pages of a cluster as teams have it, in light, dark and narrow.

`make pictures` takes all of them anew; a test run writes none, and says which look otherwise (`keeping.py`).
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from tests.e2e.browser.keeping import keep
from tests.e2e.browser.looking import DRAWN, MODES
from tests.e2e.browser.site import Site
from tests.support.cluster.stack import ROOT, Agent, Stack
from tests.support.people.person import Person, job_file
from tests.support.services.browser import launched
from tests.support.services.migrated import sqlite_copy
from tests.support.services.services import Services

FOLDER = ROOT / "docs" / "pictures"
OTHERWISE = "docs/pictures/{} is not as its page looks now (make pictures; not on a machine with other fonts)"
RACKS = {
    "gpu01": "r1", "gpu02": "r1", "gpu03": "r1", "gpu04": "r2", "gpu05": "r2", "gpu06": "r2",
    "gpu07": "r3", "gpu08": "r3",
}  # fmt: skip
SERVERS = [
    Agent(
        name=name, gpus=f"simulated:8x{'H100' if rack == 'r3' else 'A100'}-80GB", runtime="process",
        ports=f"{21_000 + place * 300}-{21_299 + place * 300}", env=(("BERTH_NODE_RACK", rack),),
    )
    for place, (name, rack) in enumerate(RACKS.items())
]  # fmt: skip
HEAD = (
    r"printf '\033[1;36mllama-finetune\033[0m  7.2 B parameters, 16 GPUs, bf16\n'; "
    r"printf 'loading checkpoint \033[32m%s\033[0m\n' $BERTH_JOB_DIR/step-12000.pt; "
    r"printf '\033[33mWARNING\033[0m tokenizer: 3 merges are never used\n'; "
)
STEP = (
    r'printf "step %6d  loss \033[32m%d.%03d\033[0m  lr 2.4e-05  \033[2m%d tok/s  mem 71.2 GB\033[0m\n" '
    r"$s 1 $((940-(s-12000)/31+s%17)) $((184000+s%13*410))"
)
TRAINING = HEAD + "s=12000; while :; do " + STEP + "; s=$((s+10)); [ $s -lt 13200 ] || sleep 1; done"
TRAIN = "echo epoch 1; sleep 3000"
# Owner, team, name, tasks, GPUs of each, SKU, class; in this order, so that who comes later waits.
RUNNING = [
    ("alice", "research", "llama-finetune", 2, 8, "A100-80GB", "prod"),
    ("carol", "vision", "segment-sam", 1, 8, "A100-80GB", "prod"),
    ("priya", "speech", "whisper-large", 1, 8, "H100-80GB", "prod"),
    ("bob", "research", "ablation-lr", 1, 4, "A100-80GB", "test"),
    ("jonas", "vision", "detr-r50", 1, 4, "A100-80GB", "test"),
    ("jonas", "vision", "yolo-sweep", 1, 4, "A100-80GB", "test"),
    ("tomas", "speech", "tts-vocoder", 1, 4, "A100-80GB", "test"),
    ("mei", "research", "retriever-eval", 1, 2, "H100-80GB", "test"),
    ("alice", "research", "reward-model", 1, 4, "H100-80GB", "test"),
    ("tomas", "speech", "aligner-sweep", 1, 4, "A100-80GB", "oppo"),
]
WAITING = [
    ("bob", "research", "ablation-wd", 1, 8, "A100-80GB", "test"),
    ("alice", "research", "mixture-eval", 2, 4, "A100-80GB", "test"),
    ("mei", "research", "rag-index", 1, 8, "A100-80GB", "test"),
    ("jonas", "vision", "detr-r101", 1, 8, "A100-80GB", "test"),
]
DONE = [
    ("alice", "research", "tokenizer", "echo 32,000 merges written"),
    ("bob", "research", "debug-run", "echo 'CUDA error: out of memory' >&2; exit 1"),
    ("alice", "research", "export-onnx", "echo written"),
]

HEIGHTS = {"home": 640, "jobs": 720, "queue": 520, "waiting": 740, "cluster": 840}
"""Pixels of a wide picture, where it is not a whole window: no more than there is to see."""
SUBMITTED = {
    "Name": "baseline", "Image": "pytorch/pytorch:latest", "GPUs per task": "4", "Memory per task, MB": "16384",
    "Command": "python train.py --lr 3e-4 \\\n  --out $BERTH_JOB_DIR",
}  # fmt: skip
FOUR_WEEKS = timedelta(days=27)
DRAWN_LATER = {
    "charts": ".u-over", "usage": ".u-over", "virtual-cluster": ".u-over", "cluster": ".u-over", "job": ".log-row",
}  # fmt: skip
"""What of a page comes last."""


PICTURED = 480
"""Pixels of a wide picture of the large map: with this many squares no more go into 60 kB."""


def main() -> None:
    with closing(Services()) as services, launched() as chromium:
        with scene(services) as (stack, jobs):
            take(chromium, stack, jobs, keep)
        with large_map(services) as stack:
            take_map(map_page(chromium, stack), keep)
    sizes = {path.name: path.stat().st_size for path in sorted(FOLDER.glob("*.webp"))}
    print(
        f"{len(sizes)} pictures, {sum(sizes.values()) / 1000:.0f} kB; the largest {max(sizes.values()) / 1000:.0f} kB"
    )


@contextmanager
def scene(services: Services) -> Iterator[tuple[Stack, dict[str, int]]]:
    """Everything in place: a stack, and its jobs by name."""
    url = sqlite_copy(services.new_folder("sqlite") / "berth.sqlite3")
    with closing(Stack(services, database_url=url, agents=SERVERS)) as stack:
        stack.start()
        yield stack, _jobs(stack)


@contextmanager
def large_map(services: Services) -> Iterator[Stack]:
    """A portal of 200 nodes alone: no agent is behind them, and no scheduler misses them."""
    url = sqlite_copy(services.new_folder("sqlite") / "berth.sqlite3")
    with closing(Stack(services, database_url=url, agents=())) as stack:
        stack.start("web")
        stack.script("tests.e2e.browser.large_map")
        yield stack


def _script(stack: Stack, phase: str) -> str:
    command = [sys.executable, "-m", "tests.e2e.browser.scene", phase]
    return subprocess.run(command, env=stack.environment, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def _jobs(stack: Stack) -> dict[str, int]:
    stack.tokens |= json.loads(_script(stack, "people"))
    people: dict[str, Person] = {}

    def who(name: str, vc: str) -> Person:
        return people.setdefault(name, Person(stack, name, vc))

    jobs = {}
    for name, vc, job, command in DONE:
        person = who(name, vc)
        jobs[job] = person.submit(job_file(command, vc=vc, name=job, gpu=0))
        person.wait(jobs[job], "succeeded", "failed", deadline_s=120)
    for wanted, state in ((RUNNING, "running"), (WAITING, "waiting")):
        for name, vc, job, tasks, gpus, sku, priority in wanted:
            person = who(name, vc)
            hived = {"jobPriorityClass": priority, "taskRoles": {"worker": {"skuType": sku, "skuNum": gpus}}}
            jobs[job] = person.submit(job_file(
                TRAINING if job == "llama-finetune" else TRAIN, vc=vc, name=job, instances=tasks, gpu=gpus,
                memory_mb=4096, image="pytorch/pytorch:latest", berth={"timeLimit": "2d"},
                extras={"hivedScheduler": hived, **({"tags": ["paper"]} if tasks > 1 else {})},
            ))  # fmt: skip
            if state == "running":
                person.wait(jobs[job], state, deadline_s=120)
    last = people[WAITING[-1][0]]
    last.wait_for(jobs[WAITING[-1][2]], lambda job: job["waiting"] and job["waiting"]["code"], deadline_s=120)
    _script(stack, "past")
    return jobs


def take(chromium: Browser, stack: Stack, jobs: dict[str, int], of: Callable[[Page, Path], bool]) -> list[str]:
    """Asks ``of`` for each page in light, dark and narrow with its file. Returns the names of those of which it is
    true."""
    chosen = []
    now = datetime.now(UTC)
    context = chromium.new_context(
        locale="en-US", timezone_id=afternoon(now), reduced_motion="reduce", **MODES["light"]
    )
    site = Site(context.new_page(), stack)
    site.sign_in("alice")
    for name, path in pages(jobs, now).items():
        shape(site.page, name, "light")
        site.open(path)
        ready(site.page, name)
        for mode in MODES:
            shape(site.page, name, mode)
            file = _file(name, mode)
            chosen += [file.name] if of(site.page, file) else []
    context.close()
    return chosen


def _file(name: str, mode: str) -> Path:
    return FOLDER / f"{name}{'' if mode == 'light' else f'-{mode}'}.webp"


def map_page(chromium: Browser, stack: Stack) -> Page:
    """The page of the large map, drawn, in light."""
    context = chromium.new_context(locale="en-US", reduced_motion="reduce", timezone_id="UTC", **MODES["light"])
    site = Site(context.new_page(), stack)
    site.sign_in("root")
    site.open("/cluster")
    expect(site.page.locator(".map-box .dot-gpu").first).to_be_visible()
    site.page.evaluate(DRAWN)
    return site.page


def take_map(page: Page, of: Callable[[Page, Path], bool]) -> list[str]:
    """As ``take`` does, of the large map."""
    chosen = []
    for mode, wanted in MODES.items():
        page.emulate_media(color_scheme=wanted["color_scheme"])
        height = PICTURED if mode != "narrow" else wanted["viewport"]["height"]
        page.set_viewport_size({"width": wanted["viewport"]["width"], "height": height})
        page.evaluate("document.querySelector('[data-cluster-map]').scrollIntoView()")
        page.evaluate(DRAWN)
        file = _file("large-cluster", mode)
        chosen += [file.name] if of(page, file) else []
    return chosen


def afternoon(now: datetime) -> str:
    """A time zone in which it is after three in the afternoon: what began hours ago did so today, and what starts in a
    night starts tomorrow, so that times take the same room whenever the pictures are taken."""
    ahead = (15 - now.hour + 11) % 24 - 11
    return f"Etc/GMT{-ahead:+d}"  # whose signs are the other way round


def pages(jobs: dict[str, int], now: datetime) -> dict[str, str]:
    """The addresses of what is pictured."""
    shown = f"/jobs/{jobs['llama-finetune']}"
    weeks = f"first={(now - FOUR_WEEKS).date()}&last={now.date()}"
    return {
        "home": "/", "job": shown, "charts": f"{shown}/charts", "waiting": f"/jobs/{jobs['ablation-wd']}",
        "submit": "/submit", "jobs": "/jobs", "queue": "/queue", "cluster": "/cluster",
        "virtual-cluster": "/virtual-clusters/research", "usage": f"/usage?by=user&{weeks}", "templates": "/templates",
    }  # fmt: skip


def shape(page: Page, name: str, mode: str) -> None:
    """The window as that mode has it, drawn anew."""
    wanted = MODES[mode]
    height = wanted["viewport"]["height"] if mode == "narrow" else HEIGHTS.get(name, 900)
    page.emulate_media(color_scheme=wanted["color_scheme"])
    page.set_viewport_size({"width": wanted["viewport"]["width"], "height": height})
    page.evaluate(DRAWN)


def ready(page: Page, name: str) -> None:
    if name in DRAWN_LATER:
        expect(page.locator(DRAWN_LATER[name]).first).to_be_visible()
    if name == "submit":
        expect(page.locator(".cm-editor")).to_be_visible()
        for label, text in SUBMITTED.items():
            page.get_by_label(label, exact=True).fill(text)
        expect(page.get_by_text("This file is valid.")).to_be_visible()
        expect(page.locator("[data-job-outlook]")).to_contain_text("It would ")  # the answer, not the question
    expect(page.locator(".skeleton, .htmx-request")).to_have_count(0)
    page.evaluate("document.fonts.ready")


if __name__ == "__main__":
    main()
