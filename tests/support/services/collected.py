"""The files of the portal's pages, collected and compressed as `manage.py collectstatic` does it: seconds of CPU."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.services.kept_build import ROOT, digest_of, kept_build

SOURCES = ("frontend/dist", "docs/pictures", "docs/images")


def static_copy(to: Path) -> Path:
    """A folder of a run's own with all of them."""
    files = [path for folder in SOURCES for path in (ROOT / folder).rglob("*") if path.is_file()]
    with kept_build("static", f"{digest_of([*files, ROOT / 'requirements.txt'])}.files", _collect) as kept:
        shutil.copytree(kept, to)
    return to


def _collect(folder: Path) -> None:
    environment = os.environ | {"BERTH_STATIC_DIR": str(folder)}
    command = [sys.executable, "manage.py", "collectstatic", "--no-input", "--verbosity=0"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"the pages' files could not be collected:\n{done.stdout}{done.stderr}"
