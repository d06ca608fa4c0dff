"""The engine as compiled code, where `make engine` has built it from the very sources that are here.

Compiled or not, it is the same engine and gives the same answers; docs/decisions/compiled-engine.md tells why and how.
BERTH_ENGINE says which to use: `auto` (the compiled one if there is one; the default), `python` or `compiled`.
"""

import os
import sys
from hashlib import sha256
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

SOURCES = Path(__file__).parent
GROUP = "berth_engine"
"""Names the library that all compiled modules share."""
NOT_COMPILED = ("__init__.py", "compiled.py", "config", "simulator")


def modules() -> list[Path]:
    """The modules that are compiled: the engine and the packages below it, neither configuration nor simulator."""
    paths = (path.relative_to(SOURCES) for path in SOURCES.rglob("*.py"))
    return sorted(path for path in paths if path.parts[0] not in NOT_COMPILED)


def folder() -> Path:
    """Where the compiled engine of these sources belongs, for this Python and this machine's kind."""
    digest = sha256(EXTENSION_SUFFIXES[0].encode())
    for path in modules():
        digest.update(str(path).encode() + b"\0" + (SOURCES / path).read_bytes() + b"\0")
    return SOURCES.parent / "build" / "engine" / digest.hexdigest()[:20]


def use(path: list[str]) -> bool:
    """Whether the package with this search path has its modules from the compiled engine from now on.

    Raises ImportError where it is asked for and not built, or where BERTH_ENGINE is no known word.
    """
    wanted = os.environ.get("BERTH_ENGINE", "auto")
    if wanted not in ("auto", "python", "compiled"):
        raise ImportError(f"BERTH_ENGINE is auto, python or compiled, not {wanted!r}")
    if wanted == "python":
        return False
    built = folder()
    if not built.is_dir():
        if wanted == "compiled":
            raise ImportError("BERTH_ENGINE is compiled, but these sources are not: run  make engine")
        return False
    path.insert(0, str(built / "scheduling"))
    sys.path.append(str(built))  # the library beneath the modules
    return True
