"""`make gpu-check`, or `python -m tests.gpu_check`: what this server's GPU does when processes are taken off it."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.gpu_check import child
from tests.gpu_check.checks import CHECKS, PHASES
from tests.gpu_check.child import Outcome

WHOLE_S = 570
DRIVER, CUDA = 580, 12080
"""The first driver that is counted on, and the first version of CUDA that can take a process off its GPU."""

IDLE_MIB = 256
"""A GPU on which more is used is not idle."""

PASSED, FAILED, NOT_CHECKED = 0, 1, 2

INTRODUCTION = f"""\
GPU check: what this server's GPU and driver do when processes are taken off the GPU and put back.
It needs  an NVIDIA GPU that nobody uses, driver {DRIVER} or newer, root; PyTorch with CUDA is used where it is found.
It does   start programs of its own on one GPU, up to its whole memory; park, resume and kill them. A parked program's
          memory is this machine's memory meanwhile. It changes no setting of the GPU: persistence, compute mode, MIG
          and clocks stay as they are.
It takes  less than ten minutes. Ctrl-C ends it, with all that it started."""


class Refused(Exception):
    """Why nothing is checked here."""


def main() -> int:
    asked = options()
    print(INTRODUCTION)
    folder = Path(asked.out or f"test-artifacts/gpu-check/{datetime.now(UTC):%Y-%m-%dT%H%M%SZ}").resolve()
    folder.mkdir(parents=True, exist_ok=True)
    print(f"Results   {folder}\n", flush=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        uuid, unable = chosen(child.look(folder), asked.gpu)
        outcomes = checked(folder, uuid, asked.torch_python, unable)
    except Refused as refused:
        print(f"Nothing was checked: {refused}")
        return NOT_CHECKED
    except KeyboardInterrupt:
        print("\nEnded before it was done; what was found so far is in the folder.")
        return 128 + signal.SIGINT
    text = summary(outcomes)
    (folder / "summary.txt").write_text(text + "\n")
    print(f"\n{text}\n\nAll figures: {folder}/results.jsonl; what they mean: docs/decisions/gpu-measured.md")
    return verdict(outcomes)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.gpu_check",
        description=INTRODUCTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Exit code: 0 all passed, 1 something failed, 2 something could not be checked here.",
    )
    parser.add_argument("--gpu", default="", help="index or UUID; needed where other GPUs of the server are in use")
    parser.add_argument("--out", default="", help="folder for results (default: a new one in test-artifacts/gpu-check)")
    parser.add_argument("--torch-python", default="", help="a Python that has PyTorch (default: this one or python3)")
    return parser.parse_args()


def chosen(look: Outcome, named: str) -> tuple[str, str]:
    """The GPU's UUID, and why no program may be parked on it, if so. Raises Refused."""
    if look.result != "passed":
        raise Refused(f"there is no NVIDIA GPU here, or its driver does not answer: {look.text}")
    gpus = look.figures["gpus"]
    if not gpus:
        raise Refused("the driver answers, and has no GPU")
    wanted = [one for one in gpus if not named or named in (str(one["index"]), one["uuid"])]
    if not wanted:
        raise Refused(f"there is no GPU {named!r}; there are {', '.join(map(described, gpus))}")
    for gpu in wanted:
        if gpu["pids"] or gpu["used_mib"] > IDLE_MIB:
            raise Refused(in_use(gpu, gpus))
    return wanted[0]["uuid"], unable(look.figures, wanted[0])


def unable(machine: Mapping[str, Any], gpu: Mapping[str, Any]) -> str:
    """Why programs cannot be parked; empty where they can."""
    if not machine["root"]:
        return "parking a process needs root"
    if int(machine["driver"].split(".")[0]) < DRIVER or machine["cuda"] < CUDA:
        return f"parking a process needs driver {DRIVER}; here is {machine['driver']}"
    return "the GPU is split by MIG; a process on an instance cannot be parked" if gpu["mig"] else ""


def in_use(gpu: Mapping[str, Any], gpus: list[Mapping[str, Any]]) -> str:
    pids = ", ".join(map(str, gpu["pids"]))
    who = f"by process {pids}" if pids else f"({gpu['used_mib']:,} MiB of its memory)"
    idle = [one for one in gpus if not one["pids"] and one["used_mib"] <= IDLE_MIB]
    if idle:
        return f"{described(gpu)} is in use {who}. {described(idle[0])} is idle: make gpu-check GPU={idle[0]['index']}"
    return f"{described(gpu)} is in use {who}, and the check fills a GPU's memory. Try again when one is idle."


def described(gpu: Mapping[str, Any]) -> str:
    return f"GPU {gpu['index']} ({gpu['name']}, {gpu['uuid']})"


def checked(folder: Path, uuid: str, torch_python: str, unable: str) -> list[Outcome]:
    """Runs all checks, in their order; what each found is printed and kept at once."""
    end = time.monotonic() + WHOLE_S
    outcomes: list[Outcome] = []
    for name, check in CHECKS.items():
        left = end - time.monotonic()
        if any(one.stuck for one in outcomes):
            outcome = Outcome(name, "not here", "left out: a process of another check does not end", 0, {})
        elif left < 1:
            outcome = Outcome(name, "not here", "left out: the time was over", 0, {})
        elif unable and check.run is not None:
            outcome = Outcome(name, "not here", unable, 0, {})
        else:
            print(f"{name}: {check.title} ...", flush=True)
            outcome = child.check(name, folder, uuid, torch_python, left)
        outcomes.append(outcome)
        with (folder / "results.jsonl").open("a") as file:
            file.write(outcome.as_json() + "\n")
        print(f"{name}: {outcome.result} ({outcome.seconds:.0f} s)", flush=True)
    return outcomes


def of_phase(outcomes: list[Outcome], phase: str) -> str:
    """One word for a phase. What need not be there does not count."""
    results = {one.result for one in outcomes if CHECKS[one.check].phase == phase and not excused(one)}
    return next((result for result in ("failed", "not here") if result in results), "passed")


def excused(outcome: Outcome) -> bool:
    return outcome.result == "not here" and CHECKS[outcome.check].optional


def summary(outcomes: list[Outcome]) -> str:
    lines = []
    for phase, title in PHASES.items():
        lines.append(f"{phase:6}{of_phase(outcomes, phase):9} {title}")
        for one in outcomes:
            if CHECKS[one.check].phase == phase:
                lines.append(f"      {one.result:9} {CHECKS[one.check].title}: {one.text}")
    return "\n".join(lines)


def verdict(outcomes: list[Outcome]) -> int:
    """The exit code."""
    results = {of_phase(outcomes, phase) for phase in PHASES}
    return FAILED if "failed" in results else NOT_CHECKED if "not here" in results else PASSED


if __name__ == "__main__":
    sys.exit(main())
