"""The gallery: job files to start from, which everybody finds under *Templates*. They name no virtual cluster.

Plain files, so that each can be read, tried and changed as people's own are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from portal.common.errors import NotFound
from portal.job_file.model import JobSpec
from portal.job_file.validate import parse

FILES = Path(__file__).parent / "files"
GROUPS: Mapping[str, tuple[str, ...]] = {
    "start": ("hello", "jupyter", "pytorch-regression", "sklearn-text"),
    "training": ("pytorch-mnist", "keras-mnist", "tensorflow-cifar10"),
    "several servers": ("pytorch-distributed", "pytorch-elastic", "horovod-benchmark"),
    "serving": ("tensorflow-serving",),
    "AMD": ("rocm-pytorch", "rocm-tensorflow"),
    "older": ("mxnet-autoencoder", "chainer-cifar", "caffe-mnist", "caffe2-resnet50"),
}
"""What there is, in the order in which it is shown."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A job file of the gallery; ``spec`` is what it asks for."""

    name: str
    group: str
    file: str
    spec: JobSpec


@lru_cache(maxsize=1)
def samples() -> tuple[Sample, ...]:
    """All of them."""
    return tuple(_sample(group, name) for group, names in GROUPS.items() for name in names)


def sample_get(*, name: str) -> Sample:
    """The one of that name; NotFound when there is none."""
    found = next((one for one in samples() if one.name == name), None)
    if found is None:
        raise NotFound("sample", name)
    return found


def _sample(group: str, name: str) -> Sample:
    text = (FILES / f"{name}.yaml").read_text(encoding="utf-8")
    return Sample(name, group, text, parse(text))
