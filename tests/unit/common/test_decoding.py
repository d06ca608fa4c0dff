"""Types that several threads decode for the first time at once, in the agent, the portal and the client."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

ROOT = Path(__file__).parents[3]
TWO_AT_ONCE = """
import threading
from dataclasses import dataclass
from {module} import {how} as decoded

begun, goes_on = threading.Event(), threading.Event()

def slow():
    begun.set()
    goes_on.wait(10)
    return int

@dataclass
class Inner:
    number: "slow()"

@dataclass
class Outer:
    inner: Inner

seen = []

def decode():
    seen.append(decoded({body!r}, Outer).inner.number)

first, second = threading.Thread(target=decode), threading.Thread(target=decode)
first.start()
begun.wait()
second.start()
second.join(0.5)
goes_on.set()
first.join()
second.join()
print(seen)
"""


VALUE = {"inner": {"number": 1}}
WAYS = [
    ("nodes.protocol.decoding", "decoded", msgspec.json.encode(VALUE)),
    ("nodes.protocol.decoding", "unpacked", msgspec.msgpack.encode(VALUE)),
    ("nodes.protocol.decoding", "converted", VALUE),
    ("berth.decoding", "decoded", msgspec.json.encode(VALUE)),
]


@pytest.mark.parametrize(("module", "how", "body"), WAYS, ids=["JSON", "MessagePack", "values", "client"])
def test_a_type_that_another_thread_is_working_out_is_waited_for(module: str, how: str, body: object) -> None:
    """A process of its own: where this fails the process crashes."""
    env = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'client'}"}
    done = subprocess.run(
        [sys.executable, "-c", TWO_AT_ONCE.format(module=module, how=how, body=body)],
        env=env, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "[1, 1]\n"), done.stderr
