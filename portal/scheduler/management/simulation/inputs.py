"""Reads a simulation's two input files and reports their faults."""

from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path
from typing import Any

import yaml

from scheduling import Cluster, ClusterError
from scheduling.config.faults import ConfigError
from scheduling.simulator.clusters import of_configuration, of_equal_nodes
from scheduling.simulator.trace import TraceError, TraceJob
from scheduling.simulator.trace import read as read_trace

SHOWN_FAULTS = 20
"""How many are printed; the rest are counted."""


class InputError(ValueError):
    """A file cannot be used; the message names it, the place and the number."""


def cluster_of(path: Path) -> Cluster:
    """The cluster that a file describes: in HiveD's style (`physicalCluster`), or as counts of nodes (`vc_nodes`)."""
    document = _document(path)
    if not isinstance(document, dict) or not {"physicalCluster", "vc_nodes"} & set(document):
        raise InputError(f"{path} has neither the key physicalCluster (HiveD's style) nor vc_nodes (counts of nodes)")
    try:
        return of_configuration(document) if "physicalCluster" in document else of_equal_nodes(document)
    except ConfigError as error:
        raise InputError("\n".join(f"{path}: {fault}" for fault in error.faults)) from None
    except ClusterError as error:
        raise InputError(f"{path}: {error}") from None


def _document(path: Path) -> Any:
    text = _text(path)
    kind, load = ("JSON", json.loads) if path.suffix == ".json" else ("YAML", _yaml)
    try:
        return load(text)
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        raise InputError(f"{path} is no {kind}: {error}") from None


def _yaml(text: str) -> Any:
    return yaml.load(text, Loader=yaml.CSafeLoader)


def trace_of(path: Path, cluster: Cluster) -> tuple[TraceJob, ...]:
    """The jobs of a CSV file, gzipped or not."""
    try:
        return read_trace(_text(path).splitlines(keepends=True), cluster)
    except TraceError as error:
        raise InputError(told(path, error)) from None


def told(path: Path, error: TraceError) -> str:
    """The faults of a trace, one per line."""
    lines = [f"{path}: {fault}" for fault in error.faults[:SHOWN_FAULTS]]
    more = len(error.faults) - len(lines)
    return "\n".join(lines + ([f"{path}: and {more} more"] if more else []))


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
        if data.startswith(b"\x1f\x8b"):
            data = gzip.decompress(data)
        return data.decode("utf-8-sig")
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path} cannot be read: {error}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is no UTF-8 text: byte {error.start} is {data[error.start]:#04x}") from None
