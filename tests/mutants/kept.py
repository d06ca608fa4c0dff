"""Small wrong changes to the sources, kept by area: each one must make a test of its area fail."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Mutant:
    """One wrong change: in ``file``, ``new`` in place of ``old``, which stands there once. ``tests``: what pytest is
    given to find it."""

    area: str
    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def source(self, root: Path = ROOT) -> str:
        """The file with the change. Raises ValueError where it does not fit."""
        text = (root / self.file).read_text()
        if text.count(self.old) != 1:
            raise ValueError(f"{self.area}: {self.name}: its text stands {text.count(self.old)} times in {self.file}")
        return text.replace(self.old, self.new)

    def line(self) -> int:
        """Where the change begins, from 1."""
        return (ROOT / self.file).read_text().partition(self.old)[0].count("\n") + 1


def areas() -> list[str]:
    """Their names."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def mutants(area: str) -> list[Mutant]:
    """All of an area, as its file lists them; ``tests`` at its top are those of every mutant that names none."""
    listed = tomllib.loads((FOLDER / f"{area}.toml").read_text())
    return [
        Mutant(area, one["name"], one["file"], one["old"], one["new"], tuple(one.get("tests", listed["tests"])))
        for one in listed["mutant"]
    ]
