"""A long log in a real Chromium: how soon the page shows its end and any place in it that one goes to, and the logs of
many tasks as one; printed beside the goal: `python -m tests.benchmarks.bench_log_page`.

The whole stack runs as `make demo` starts it; the log is put into its archive, 1 MB a segment as the archiver writes
them. All processes and the browser share this machine's cores. Nothing here is asserted.
"""

import gzip
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Page, expect

from nodes.protocol.logs import RECORD_HEADER, STDOUT
from tests.e2e.browser.site import Site
from tests.support.cluster.stack import Agent, Stack
from tests.support.people.person import alice
from tests.support.run.waiting import wait_until
from tests.support.services.browser import launched
from tests.support.services.services import Services

SIZE = int(os.environ.get("BENCH_LOG_BYTES", 1_000_000_000))
SEGMENT = 1 << 20
TASKS = 20
LINE = b"\x1b[32mstep %09d\x1b[0m loss 0.123456 lr 1e-4 throughput 1234.5 samples/s, and some more words\n"
FIRST_NS = 1_767_000_000 * 10**9
LIMIT_MS = 120_000


def archive(folder: Path, attempt: str) -> tuple[int, int]:
    """A log of ``SIZE`` bytes in segments. Returns its end and the number of its last line."""
    log = folder / attempt[:2] / attempt
    log.mkdir(parents=True, exist_ok=True)
    offset = number = 0
    while offset < SIZE:
        data = bytearray()
        while len(data) < SEGMENT - 200:
            line = LINE % number
            data += RECORD_HEADER.pack(FIRST_NS + number * 10**7, STDOUT, len(line)) + line
            number += 1
        (log / f"{offset:020d}.rec.gz").write_bytes(gzip.compress(bytes(data), 1))
        offset += len(data)
    return offset, number - 1


def with_long_log(stack: Stack) -> tuple[int, int]:
    """A job that is over and whose log is that long, and the number of its last line."""
    user = alice(stack)
    job = user.run("true", name="long")
    user.wait(job, "succeeded")
    attempt = user.task_attempts(job)[0]["id"]
    row = attempt.replace("-", "")
    removed = "SELECT removed_at FROM jobs_taskattempt WHERE id = ?"
    wait_until(lambda: stack.sql(removed, row)[0][0], "its node to have done with it", deadline_s=60)
    folder = stack.folder / "data" / "logs"
    for old in (folder / attempt[:2] / attempt).glob("*.rec.gz"):
        old.unlink()
    end, last = archive(folder, attempt)
    with closing(sqlite3.connect(urlsplit(stack.database_url).path[1:], timeout=20)) as database, database:
        database.execute("UPDATE jobs_taskattempt SET log_end = ?, archived_to = ? WHERE id = ?", (end, end, row))
    return job, last


@contextmanager
def timed(words: str, goal: str) -> Iterator[None]:
    began = time.perf_counter()
    yield
    print(f"{words}: {time.perf_counter() - began:.2f} s ({goal})", flush=True)


def shown(page: Page, words: str) -> None:
    expect(page.locator(".log-row", has_text=words).first).to_be_visible(timeout=LIMIT_MS)


def go(page: Page, steps: int) -> None:
    """As somebody who lets go of the bar there."""
    page.locator("[data-log-range]").evaluate(
        "(range, steps) => { range.value = steps; range.dispatchEvent(new Event('change')) }", steps
    )


def find(page: Page, text: str) -> None:
    """As somebody who looks for the text before."""
    field = page.get_by_role("searchbox", name="Search the log")
    field.fill(text)
    field.press("Shift+Enter")


def scroll(page: Page, screens: int) -> int:
    """Scrolls down by so many screens, a frame each. Returns how many rows were missing when their frame was drawn."""
    return int(page.locator(".log-box").evaluate(
        """async (box, screens) => {
            let missing = 0;
            for (let at = 0; at < screens; at++) {
                box.scrollTop += box.clientHeight;
                await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
                missing += box.querySelector(".log-row") ? 0 : 1;
            }
            return missing;
        }""",
        screens,
    ))  # fmt: skip


def long_log(site: Site, job: int, last: int) -> None:
    page = site.page
    site.open("/jobs")
    with timed(f"a log of {SIZE // 1_000_000} MB opens at its end", "goal: < 1 s"):
        site.open(f"/jobs/{job}")
        shown(page, f"step {last:09d}")
    for steps, line in ((500, last // 2), (0, 0), (250, last // 4)):
        with timed(f"... and is at {steps // 10} % of it", "goal: < 1 s"):
            go(page, steps)
            shown(page, f"step {line // 10_000:05d}")
    with timed("... and 500 screens further", "no goal"):
        missing = scroll(page, 500)
    heap = page.evaluate("performance.memory.usedJSHeapSize") / 1e6
    print(f"{missing} of these screens were drawn without a row; the page's script holds {heap:.0f} MB then")
    with timed("... and at its end again", "goal: < 1 s"):
        go(page, 1000)
        shown(page, f"step {last:09d}")
    for line in (last - last // 100, last // 2):
        with timed(f"... and at the one line with a text, {100 - 100 * line // last} % before it", "no goal"):
            find(page, f"STEP {line:09d}")
            shown(page, f"step {line:09d}")
        go(page, 1000)
        shown(page, f"step {last:09d}")


def merged(site: Site, stack: Stack) -> None:
    user = alice(stack)
    lines = "for s in $(seq 2000); do echo line $s; done"
    job = user.run(lines, instances=TASKS, gpu=0, memory_mb=16, gang=False, name="many")
    user.wait(job, "succeeded", deadline_s=300)
    with timed(f"the newest lines of {TASKS} tasks as one", "no goal"):
        site.open(f"/jobs/{job}?log=all")
        shown(site.page, "line 2000")


def main() -> None:
    with closing(Services()) as services:
        url = f"sqlite:///{services.new_folder('sqlite')}/berth.sqlite3"
        with closing(Stack(services, database_url=url, agents=[Agent(name="here", runtime="process")])) as stack:
            stack.start()
            job, last = with_long_log(stack)
            with launched() as chromium:
                site = Site(chromium.new_page(), stack)
                site.sign_in("alice")
                long_log(site, job, last)
                merged(site, stack)
    print(f"load of the machine at the end: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
