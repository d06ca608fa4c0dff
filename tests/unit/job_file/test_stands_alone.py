"""The job file can be checked without the portal: by a client, in an editor, in a test."""

from __future__ import annotations

import subprocess
import sys

from tests.support.cluster.job_files import ROOT

PROGRAM = """
import sys
sys.modules["django"] = None
from portal.job_file.validate import parse
print(parse(open("examples/hello.yaml").read()).name)
"""


def test_it_reads_a_file_where_django_cannot_be_imported() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("hello\n", "")
