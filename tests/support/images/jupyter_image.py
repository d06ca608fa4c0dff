"""An image with JupyterLab beside the interpreter, from the package registry: what people bring as an image of their
own, and what the Jupyter sample would otherwise install itself."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from tests.support.images import images
from tests.support.services.docker_engine import DockerEngine

VERSION = "4.6.6"
JUPYTER = f"berth-test/jupyter:{VERSION}"
PROGRAMS = {"jupyter": "jupyter_core.command", "jupyter-lab": "jupyterlab.labapp"}


def jupyter_image(engine: DockerEngine) -> str:
    """The image's name, once the Engine has it. Raises CalledProcessError where no registry is reached."""
    images.BUILDS[JUPYTER] = build_jupyter
    return engine.ensure_image(JUPYTER)


def build_jupyter(root: Path) -> None:
    images.build_python(root)
    target = root / "usr/local/lib/jupyter-packages"
    shutil.copytree(packages(), target, ignore=shutil.ignore_patterns("tests", "bin", "share", "etc"))
    for kind in ("share", "etc"):  # where Jupyter looks for its pages and for what it loads
        shutil.copytree(packages() / kind, Path(f"{root}{sys.base_prefix}/{kind}"), dirs_exist_ok=True)
    for name, module in PROGRAMS.items():
        program = root / "usr/local/bin" / name
        program.write_text(f"#!/usr/local/bin/python3\nimport sys\nfrom {module} import main\n\nsys.exit(main())\n")
        program.chmod(0o755)
    site = Path(f"{root}{images.site_packages()}")
    site.mkdir(parents=True, exist_ok=True)
    (site / "jupyter.pth").write_text("/usr/local/lib/jupyter-packages\n")
    images.place_libraries(root, list(target.glob("**/*.so*")))


def packages() -> Path:
    """A folder with JupyterLab and what it needs, kept in the cache."""
    target = images.cache_folder() / f"jupyterlab-{VERSION}-{sysconfig.get_config_var('SOABI')}"
    if not target.exists():
        partial = target.with_suffix(f".{VERSION}-part")
        shutil.rmtree(partial, ignore_errors=True)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(partial)]
        subprocess.run([*pip, f"jupyterlab=={VERSION}"], check=True)
        partial.rename(target)
    return target
