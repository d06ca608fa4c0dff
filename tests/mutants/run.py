"""Makes each kept mutant in a copy of the tree and says which of them no test noticed.

    python -m tests.mutants.run [AREA ...] [--only WORDS]

Ends with 1 where one survives, with 2 where one does not fit the sources or its tests fail without it.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory

from tests.mutants.kept import ROOT, Mutant, areas, mutants

PYTEST = (".venv/bin/python", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", "not soak and not fuzz")
ENVIRONMENT = {"BERTH_TEST_DATABASE": "sqlite", "BERTH_ENGINE": "python"}
LINKED = (".venv", "frontend/node_modules", "frontend/dist")
COPIED = ("build/migrated",)
SLACK_S = 60.0
RUNNING: set[subprocess.Popen[str]] = set()
"""Pytest's processes that run now."""
PASSED, FAILED, BROKEN = 0, 1, 2
"""Of pytest: all passed; one failed; the tests could not even be read."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="make mutants", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("areas", nargs="*", metavar="AREA", help=", ".join(areas()))
    parser.add_argument("--workers", type=int, default=2, help="how many are tried side by side (2)")
    parser.add_argument("--only", default="", metavar="WORDS", help="those alone that have these words in their name")
    asked = parser.parse_args(arguments)
    if unknown := set(asked.areas) - set(areas()):
        parser.error(f"no such area: {', '.join(sorted(unknown))}; there are {', '.join(areas())}")
    chosen = [one for area in asked.areas or areas() for one in mutants(area) if asked.only in one.name]
    if not chosen:
        parser.error(f"no mutant has these words in its name: {asked.only}")
    for one in chosen:
        try:
            one.source()
        except ValueError as fault:
            print(fault)
            return 2
    with TemporaryDirectory(prefix="berth-mutants-") as folder:
        copies = SimpleQueue[Path]()
        for number in range(asked.workers):
            copies.put(copied(Path(folder, str(number))))
        with ThreadPoolExecutor(asked.workers) as pool:
            try:
                return told(chosen, pool, copies)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                for process in list(RUNNING):
                    os.killpg(process.pid, signal.SIGKILL)
                raise


def copied(folder: Path) -> Path:
    """The tree as it stands, without what git ignores; what was installed and built is linked."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    for name in LINKED:
        if (ROOT / name).exists():
            (folder / name).symlink_to((ROOT / name).resolve())
    for name in COPIED:
        if (ROOT / name).exists():
            shutil.copytree(ROOT / name, folder / name)
    for path in ROOT.glob("portal/locale/*/LC_MESSAGES/*.mo"):
        shutil.copy2(path, folder / path.relative_to(ROOT))
    return folder


def told(chosen: list[Mutant], pool: ThreadPoolExecutor, copies: SimpleQueue[Path]) -> int:
    """Tries them all and prints what came of it."""
    clean = {}
    for tests in dict.fromkeys(one.tests for one in chosen):
        copy, began = copies.get(), time.monotonic()
        code = tried(copy, tests, 3600)
        copies.put(copy)
        clean[tests] = time.monotonic() - began
        print(f"{clean[tests]:>6.0f} s without any change: {' '.join(tests)}", flush=True)
        if code != PASSED:
            print("these fail by themselves: mend them first")
            return 2
    futures = [(one, pool.submit(outcome, one, copies, 3 * clean[one.tests] + SLACK_S)) for one in chosen]
    counted, survivors = Counter[tuple[str, str]](), []
    for number, (one, future) in enumerate(futures, 1):
        came = future.result()
        counted[one.area, came] += 1
        survivors += [one] if came == "survived" else []
        print(f"{number:>4} of {len(chosen)}  {came:<9} {one.area}: {one.name}", flush=True)
    print(f"\n{'area':<14}{'mutants':>8}{'killed':>8}{'survived':>9}{'score':>7}")
    for area in dict.fromkeys(one.area for one in chosen):
        lost = counted[area, "survived"]
        every = sum(count for (of, _), count in counted.items() if of == area)
        print(f"{area:<14}{every:>8}{every - lost:>8}{lost:>9}{100 * (every - lost) // every:>6}%")
    for one in survivors:
        print(f"survived: {one.file}:{one.line()}: {one.name}")
    return 1 if survivors else 0


def outcome(one: Mutant, copies: SimpleQueue[Path], limit_s: float) -> str:
    """Killed, survived or hung, in a copy that nobody else uses meanwhile."""
    copy = copies.get()
    path = copy / one.file
    true = path.read_bytes()
    try:
        path.write_text(one.source(copy))
        code = tried(copy, one.tests, limit_s)
    finally:
        path.write_bytes(true)
        copies.put(copy)
    return {None: "hung", PASSED: "survived"}.get(code, "killed")


def tried(copy: Path, tests: Sequence[str], limit_s: float) -> int | None:
    """Pytest's exit code; None where it had to be ended. Raises RuntimeError where it could not run at all."""
    process = subprocess.Popen(
        [*PYTEST, *tests], cwd=copy, env=os.environ | ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, start_new_session=True,
    )  # fmt: skip
    RUNNING.add(process)
    try:
        said, _ = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        return None
    finally:
        RUNNING.discard(process)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if process.returncode not in (PASSED, FAILED, BROKEN):
        raise RuntimeError(f"pytest ended with {process.returncode}: {said[-1000:]}")
    return process.returncode


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which who starts it in the background may ignore
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main(sys.argv[1:]))
