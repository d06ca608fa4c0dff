"""Plays HiveD's own cases through the scheduling engine: `python -m tests.hived FILE [--follow]`.

Prints a JSON line for each difference and one for the sum; ends with 1 when there are differences, with 2 when FILE is
no case file.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from scheduling.config.faults import ConfigError
from tests.hived.cases import CaseFile, read
from tests.hived.run import Tally, replay

UNREADABLE = 2


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.hived",
        description="Replay a file of HiveD's cases and print where the scheduling engine answers otherwise, a JSON "
        "line each.",
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="JSON: configs, pods and tests with their steps")
    parser.add_argument(
        "--follow", action="store_true", help="after each decision go on from the recorded one, not from ours"
    )
    options = parser.parse_args(arguments)
    cases = _cases(options.file)
    if cases is None:
        return UNREADABLE
    tally = Tally()
    for difference in replay(cases, options.follow, tally):
        print(json.dumps(difference._asdict()))
    print(json.dumps(asdict(tally)))
    return 1 if tally.differences else 0


def _cases(path: Path) -> CaseFile | None:
    """What the file holds; None, with a complaint on standard error, where that are no cases."""
    try:
        return read(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        print(f"{path} cannot be read: {error.strerror}", file=sys.stderr)
    except (ValueError, RecursionError) as error:
        faults = error.faults if isinstance(error, ConfigError) else (error,)
        print(f"{path} is no file of cases:", *(f"  {fault}" for fault in faults), sep="\n", file=sys.stderr)
    return None


if __name__ == "__main__":
    sys.exit(main())
