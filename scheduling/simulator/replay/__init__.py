"""HiveD's own cases through the engine: what another scheduler answered beside what ours does.

The format and the rules of comparison are those of the case files' description (`docs/figures.md`, "HiveD's
cases"). Pure: a document goes in, differences come out.
"""

from scheduling.simulator.replay.cases import Case, CaseFile, Request, read
from scheduling.simulator.replay.compare import Difference
from scheduling.simulator.replay.run import Tally, replay

__all__ = ["Case", "CaseFile", "Difference", "Request", "Tally", "read", "replay"]
