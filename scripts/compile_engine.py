"""Compiles the scheduling engine with mypyc; run by scripts/engine-build.

It works on a copy, so that an edit meanwhile does no harm, and what is built takes its place in one step.
"""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mypyc.build import mypycify
from setuptools import setup
from setuptools.command.build_ext import build_ext

from scheduling.compiled import GROUP, SOURCES, folder, modules

TYPES = ["--config-file=", "--strict", "--cache-dir=mypy-cache"]


class BuildSideBySide(build_ext):
    """Each C file by itself, as many at a time as there are cores."""

    def build_extensions(self) -> None:
        compile_all = self.compiler.compile

        def compile_each(sources: list[str], **options: Any) -> list[str]:
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                objects = pool.map(lambda source: compile_all([source], **options), sources)
                return [one for found in objects for one in found]

        self.compiler.compile = compile_each
        super().build_extensions()


def build() -> None:
    """The compiled modules, and the library beneath them, into a folder named after the sources."""
    target = folder()
    target.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=target.parent, prefix="making-") as work:
        shutil.copytree(SOURCES, Path(work, "scheduling"), ignore=shutil.ignore_patterns("__pycache__"))
        names = [f"scheduling/{path}" for path in modules()]
        os.chdir(work)
        extensions = mypycify([*TYPES, *names], opt_level="1", debug_level="0", multi_file=True, group_name=GROUP)
        setup(
            name=GROUP,
            packages=[],
            ext_modules=extensions,
            cmdclass={"build_ext": BuildSideBySide},
            script_args=["--quiet", "build_ext", "--build-lib=built"],
        )
        os.chdir(target.parent)
        if not target.is_dir():  # another run may have been first
            Path(work, "built").rename(target)


if __name__ == "__main__":
    build()
