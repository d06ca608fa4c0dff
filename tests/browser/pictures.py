"""Takes the pictures of `docs/pictures`, of the whole stack with a cluster as teams have it: `make pictures`.

Pictures are small (WebP). They are taken only when asked for, so that no other run changes them.
"""

import io
import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, expect

from tests.browser.site import Site
from tests.browser.test_looks import MODES
from tests.support.browser import launched
from tests.support.person import Person, job_file
from tests.support.services import Services
from tests.support.stack import ROOT, Agent, Stack
from tests.support.waiting import wait_until

FOLDER = ROOT / "docs" / "pictures"
RACKS = {"gpu01": "r1", "gpu02": "r1", "gpu03": "r1", "gpu04": "r2", "gpu05": "r2", "gpu06": "r2"}
SERVERS = [
    Agent(name=name, gpus="simulated:8xA100-80GB", runtime="process", ports=f"2{place}000-2{place}499")
    for place, name in enumerate(RACKS)
] + [
    Agent(name=name, gpus="simulated:8xH100-80GB", runtime="process", ports=f"2{place}000-2{place}499")
    for place, name in ((6, "gpu07"), (7, "gpu08"))
]
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

LARGEST = 60_000
HEIGHTS = {"home": 700, "jobs": 800, "queue": 520, "waiting": 740, "cluster": 840}
SUBMITTED = {
    "Name": "baseline", "Image": "pytorch/pytorch:latest", "GPUs per task": "4", "Memory per task, MB": "16384",
    "Command": "python train.py --lr 3e-4 \\\n  --out $BERTH_JOB_DIR",
}  # fmt: skip


def main() -> None:
    with closing(Services()) as services:
        url = f"sqlite:///{services.new_folder('sqlite')}/berth.sqlite3"
        with closing(Stack(services, database_url=url, agents=_servers())) as stack:
            stack.start()
            jobs = _scene(stack)
            with launched() as chromium:
                _take(chromium, stack, jobs)
    sizes = {path.name: path.stat().st_size for path in sorted(FOLDER.glob("*.webp"))}
    print(
        f"{len(sizes)} pictures, {sum(sizes.values()) / 1000:.0f} kB; the largest {max(sizes.values()) / 1000:.0f} kB"
    )


def _servers() -> list[Agent]:
    return [
        Agent(
            name=one.name, gpus=one.gpus, runtime=one.runtime, ports=one.ports,
            env=(("BERTH_NODE_RACK", RACKS.get(one.name, "r3")),),
        )
        for one in SERVERS
    ]  # fmt: skip


def _script(stack: Stack, phase: str) -> str:
    command = [sys.executable, "-m", "tests.browser.scene", phase]
    return subprocess.run(command, env=stack.environment, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def _scene(stack: Stack) -> dict[str, int]:
    """Everything in place. Returns the jobs by name."""
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
    queue = stack.client("root")
    wait_until(lambda: "p50" in queue.get("/queue").text, "estimates of starts", deadline_s=90)
    return jobs


def _take(chromium: Browser, stack: Stack, jobs: dict[str, int]) -> None:
    shown = f"/jobs/{jobs['llama-finetune']}"
    pictures = {
        "home": "/", "job": shown, "charts": f"{shown}/charts", "waiting": f"/jobs/{jobs['ablation-wd']}",
        "submit": "/submit", "jobs": "/jobs", "queue": "/queue", "cluster": "/cluster",
        "virtual-cluster": "/virtual-clusters/research", "usage": "/usage?by=user", "templates": "/templates",
    }  # fmt: skip
    for mode, names in (("light", set(pictures)), ("dark", {"job", "cluster"}), ("narrow", {"home", "job"})):
        context = chromium.new_context(locale="en-US", timezone_id="UTC", reduced_motion="reduce", **MODES[mode])
        site = Site(context.new_page(), stack)
        site.sign_in("alice")
        for name in sorted(names):
            site.page.set_viewport_size({"width": MODES[mode]["viewport"]["width"], "height": HEIGHTS.get(name, 900)})
            site.open(pictures[name])
            _ready(site.page, name)
            _keep(site.page, FOLDER / f"{name}{'' if mode == 'light' else f'-{mode}'}.webp")
        context.close()


def _ready(page: Page, name: str) -> None:
    waits = {
        "charts": ".u-over",
        "usage": ".u-over",
        "virtual-cluster": ".u-over",
        "cluster": ".u-over",
        "job": ".log-row",
    }
    if name in waits:
        expect(page.locator(waits[name]).first).to_be_visible()
    if name == "submit":
        for label, text in SUBMITTED.items():
            page.get_by_label(label, exact=True).fill(text)
        expect(page.get_by_text("This file is valid.")).to_be_visible()
        expect(page.get_by_text("It would")).to_be_visible()
    page.evaluate("document.fonts.ready.then(() => new Promise(done => setTimeout(done, 600)))")


def _keep(page: Page, path: Path) -> None:
    FOLDER.mkdir(exist_ok=True)
    with Image.open(io.BytesIO(page.screenshot())) as picture:
        for quality in (68, 48, 32):
            picture.convert("RGB").save(path, quality=quality, method=6)
            if path.stat().st_size <= LARGEST:
                break


if __name__ == "__main__":
    main()
