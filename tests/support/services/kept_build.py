"""What takes long to build: made once for the sources as they are, kept below build/, copied from there by each run."""

import fcntl
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).parents[3]


@contextmanager
def kept_build(folder: str, name: str, make: Callable[[Path], None]) -> Iterator[Path]:
    """The file or folder ``build/folder/name``, made where it is not there, in place of those with the same ending; of
    other runs one at a time."""
    place = ROOT / "build" / folder
    place.mkdir(parents=True, exist_ok=True)
    ending = Path(name).suffix
    with (place / f"{ending[1:]}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        path, making = place / name, place / f"making{ending}"
        if not path.exists():
            for old in place.glob(f"*{ending}"):
                shutil.rmtree(old) if old.is_dir() else old.unlink()
            make(making)
            making.rename(path)
        yield path


def digest_of(paths: Iterable[Path]) -> str:
    """Changes with the name and the content of each of these files."""
    digest = sha256()
    for path in sorted(paths):
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:20]
