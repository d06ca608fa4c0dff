"""A trace of jobs through the engine, event by event: the same jobs under several ways of sharing a cluster.

Pure, as the engine: rows go in, what became of the jobs comes out; files, clocks and charts are the caller's.
"""

from scheduling.simulator.clusters import of_configuration, of_equal_nodes
from scheduling.simulator.loop import Attempt, Event, Happening, Outcome
from scheduling.simulator.metrics import Figures, Later, Spread, Summary, summary
from scheduling.simulator.policies import Result, Settings, Sharing, compare, simulate
from scheduling.simulator.timeline import Moment, timeline
from scheduling.simulator.trace import Fault, TraceError, TraceJob
from scheduling.simulator.trace import read as read_trace

__all__ = [
    "Attempt",
    "Event",
    "Fault",
    "Figures",
    "Happening",
    "Later",
    "Moment",
    "Outcome",
    "Result",
    "Settings",
    "Sharing",
    "Spread",
    "Summary",
    "TraceError",
    "TraceJob",
    "compare",
    "of_configuration",
    "of_equal_nodes",
    "read_trace",
    "simulate",
    "summary",
    "timeline",
]
