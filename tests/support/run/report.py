"""What ran, by kind, at the end of a test run; and what could not run, which is a failure unless allowed."""

import os
import time
from collections import Counter, defaultdict
from collections.abc import Generator

import pytest

from tests.support.run import parts
from tests.support.run.facts import originals

FOLDERS = ("architecture", "conformance", "flows", "browser", "faults")
KINDS = ("unit", "property", "integration", *FOLDERS)
KIND = pytest.StashKey[str]()


def kind_of(item: pytest.Item) -> str:
    for folder in FOLDERS:
        if folder in item.path.parts:
            return folder
    if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
        return "property"
    return "integration" if parts.needed(item) or parts.uses_database(item) else "unit"


def used() -> tuple[float, float]:
    """CPU seconds of this process and of its children that have ended, and the time in seconds."""
    spent = os.times()
    return sum(spent[:4]), time.monotonic()


class Report:
    """Counts outcomes and seconds by kind, and what each file cost."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.kinds: dict[str, str] = {}
        self.outcomes: dict[str, Counter[str]] = defaultdict(Counter)
        self.seconds: dict[str, float] = defaultdict(float)
        self.left_out: Counter[str] = Counter()
        self.not_possible: dict[str, int] = defaultdict(int)
        self.notes: list[str] = []  # what else whoever started the run should know
        self.files: dict[str, tuple[float, float]] = {}  # CPU seconds and seconds of each

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        chosen = config.getoption("markexpr", default="")
        kept: list[pytest.Item] = []
        dropped: list[pytest.Item] = []
        for item in items:
            reason = self._reason_to_leave_out(item, chosen)
            (dropped if reason else kept).append(item)
            if reason:
                self.left_out[reason] += 1
            self.kinds[item.nodeid] = kind_of(item)
        items[:] = kept
        config.hook.pytest_deselected(items=dropped)

    def _reason_to_leave_out(self, item: pytest.Item, chosen: str) -> str | None:
        for marker in parts.CHOSEN_ONLY:
            if item.get_closest_marker(marker) and marker not in chosen:
                return f"run by make {'bench' if marker == 'benchmark' else marker}"
        if item.get_closest_marker("conformance") and originals() is None:
            return "the originals of tests/data are not here"
        needed = parts.needed(item)
        if "gpu" in needed and (why := parts.missing("gpu")):
            return why
        unwanted = needed & parts.to_skip()
        return f"BERTH_TEST_SKIP names {', '.join(sorted(unwanted))}" if unwanted else None

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        reasons = [f"{part}: {why}" for part in sorted(parts.needed(item)) if (why := parts.missing(part))]
        if reasons:
            self.not_possible["; ".join(reasons)] += 1
            pytest.fail("cannot run here: " + "; ".join(reasons), pytrace=False)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        kind = self.kinds.get(report.nodeid, "unit")
        self.seconds[kind] += report.duration
        if report.when == "call" or report.failed:
            self.outcomes[kind]["failed" if report.failed else "passed"] += 1

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        cpu, began = used()
        result = yield
        cpu, seconds = used()[0] - cpu, used()[1] - began
        name = item.nodeid.partition("::")[0]
        before = self.files.get(name, (0.0, 0.0))
        self.files[name] = before[0] + cpu, before[1] + seconds
        return result

    def pytest_sessionfinish(self) -> None:
        """Add a line for each file to the file that scripts/test names, which tells the costliest of all suites."""
        if path := os.environ.get("BERTH_TEST_COSTS"):
            with open(path, "a") as costs:
                costs.writelines(f"{cpu:.1f} {seconds:.1f} {name}\n" for name, (cpu, seconds) in self.files.items())

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.outcomes and not self.left_out:
            return
        write = terminalreporter.write_line
        terminalreporter.section("what ran")
        write(f"{'kind':<28}{'passed':>8}{'failed':>8}{'seconds':>10}")
        for kind in (one for one in KINDS if self.outcomes[one]):
            passed, failed = self.outcomes[kind]["passed"], self.outcomes[kind]["failed"]
            write(f"{kind:<28}{passed:>8}{failed:>8}{self.seconds[kind]:>10.1f}")
        for reason, count in self.not_possible.items():
            write(f"could not run {count} tests: {reason}")
        for reason, count in self.left_out.items():
            write(f"left out {count} tests: {reason}")
        for note in self.notes:
            write(note)
