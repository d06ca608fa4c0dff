"""Sentences that people are told, found in the sources: which of them are not marked for translation."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[3]
PROGRAMS = ("api", "openpai", "management", "migrations")
"""What programs read is English."""
MARKS = {"NotFound", "_", "gettext", "gettext_lazy", "gettext_noop", "ngettext", "ngettext_lazy"}
TELLING = {"Alert", "Fault", "RegexValidator", "SessionFailed", "Share", "Taken", "add_error"}
"""Beside every kind of ``Refused``, Django's own ValidationError, and what ``django.contrib.messages`` says."""
_WORDS = re.compile(r"[a-z]{2,}[,;:]? |[ ][A-Za-z]*[a-z]{2,}")


@dataclass(slots=True)
class Module:
    """A source: its functions, what its names stand for, and where they come from."""

    path: str
    tree: ast.Module
    functions: dict[str, list[ast.FunctionDef]] = field(default_factory=dict)
    imports: dict[str, tuple[str, str]] = field(default_factory=dict)
    tells: dict[str, set[str]] = field(default_factory=dict)
    """Functions that hand on what they are given, and which of their parameters it is."""


def modules(root: Path, package: str = "portal") -> dict[str, Module]:
    """Every module of the package, by its dotted name."""
    found = {}
    for path in sorted((root / package).rglob("*.py")):
        name = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        module = Module(str(path.relative_to(root)), ast.parse(path.read_text(encoding="utf-8")))
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef):
                module.functions.setdefault(node.name, []).append(node)
            elif isinstance(node, ast.ImportFrom):
                module.imports |= {one.asname or one.name: (node.module or "", one.name) for one in node.names}
        found[name] = module
    return found


def refusals(found: dict[str, Module]) -> set[str]:
    """The names of all kinds of ``Refused``."""
    classes = {
        node.name: {base.id for base in node.bases if isinstance(base, ast.Name)}
        for module in found.values()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ClassDef)
    }
    kinds = {"Refused"}
    while more := {name for name, bases in classes.items() if bases & kinds} - kinds:
        kinds |= more
    return kinds


def unmarked(root: Path = ROOT) -> Iterator[tuple[str, int, str]]:
    """File, line and text of each sentence that is told in one language only."""
    found = modules(root)
    for path, given in _Search(found, refusals(found) | TELLING).everywhere():
        yield path, given.lineno, ast.unparse(given)


def problems_written() -> Iterator[tuple[str, str]]:
    """File and text of each literal that tells what is wrong with a job file; ``X`` stands for what is filled in."""
    return _written("portal", {"Problem"})


def configurations_written() -> set[str]:
    """The forms of what is told of a configuration."""
    found = _Search(modules(ROOT, "scheduling"), {"Words", "add"}).everywhere()
    return {_text(given) for path, given in found if path.startswith("scheduling/config/")}


def _written(package: str, telling: set[str]) -> Iterator[tuple[str, str]]:
    for path, given in _Search(modules(ROOT, package), telling).everywhere():
        yield path, _text(given).replace("{}", "X")


class _Search:
    def __init__(self, found: dict[str, Module], telling: set[str]) -> None:
        self.modules, self.telling = found, telling

    def everywhere(self) -> list[tuple[str, ast.expr]]:
        """Each literal once."""
        wanted = [
            module for module in self.modules.values() if not {*PROGRAMS} & {*Path(module.path).with_suffix("").parts}
        ]
        texts = {id(text): (path, text) for module in wanted for path, text in self._of(module)}
        return sorted(texts.values(), key=lambda one: (one[0], one[1].lineno))

    def _of(self, module: Module) -> list[tuple[str, ast.expr]]:
        """Until no function more is found that hands sentences on."""
        while True:
            before, texts = sum(map(len, module.tells.values())), self._once(module)
            if sum(map(len, module.tells.values())) == before:
                return texts

    def _once(self, module: Module) -> list[tuple[str, ast.expr]]:
        texts: list[tuple[str, ast.expr]] = []
        for scope in [module.tree, *(one for same in module.functions.values() for one in same)]:
            for call in _calls(scope):
                for given in self._told(module, call):
                    texts += self._plain(module, scope, given, set())
        return texts

    def _told(self, module: Module, call: ast.Call) -> list[ast.expr]:
        """What of it people will read."""
        if self._tells(module, call):
            return [*call.args, *(one.value for one in call.keywords)]
        wanted = module.tells.get(_called(call), set())
        names = [one.arg for function in module.functions.get(_called(call), ())[:1] for one in function.args.args]
        names = names[1:] if names[:1] == ["self"] else names
        by_place = [given for name, given in zip(names, call.args, strict=False) if name in wanted]
        return [*by_place, *(one.value for one in call.keywords if one.arg in wanted)]

    def _tells(self, module: Module, call: ast.Call) -> bool:
        name = _called(call)
        if name in MARKS:
            return False
        if name == "ValidationError":
            return module.imports.get(name, ("", ""))[0] == "django.core.exceptions" or not isinstance(
                call.func, ast.Name
            )
        if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name):
            if call.func.value.id == "messages":
                return "add_error" in self.telling
            if name == "__init__":
                return False
        owner = _owner(module, call)
        return name in self.telling or bool(owner and owner in self.telling)

    def _plain(self, module: Module, scope: ast.AST, given: ast.expr, seen: set[int]) -> list[tuple[str, ast.expr]]:
        """The literals that this may be and that no mark stands around."""
        if id(given) in seen:
            return []
        seen.add(id(given))
        if isinstance(given, ast.Call):
            return [] if _called(given) in MARKS else self._returned(module, scope, given, seen)
        if isinstance(given, ast.Constant | ast.JoinedStr):
            own = [(module.path, given)] if _WORDS.search(_text(given)) else []
            return own + [text for part in _holes(given) for text in self._plain(module, scope, part, seen)]
        if isinstance(given, ast.Name):
            return [text for one in self._meant(module, scope, given.id) for text in self._plain(module, *one, seen)]
        if isinstance(given, ast.Subscript):
            return self._plain(module, scope, given.value, seen) if isinstance(given.value, ast.Name) else []
        if isinstance(given, ast.Attribute | ast.Compare | ast.Lambda):
            return []
        children = (one for one in ast.iter_child_nodes(given) if isinstance(one, ast.expr | ast.comprehension))
        parts = [one.iter if isinstance(one, ast.comprehension) else one for one in children]
        tested = {id(given.test)} if isinstance(given, ast.IfExp) else set()
        return [text for one in parts if id(one) not in tested for text in self._plain(module, scope, one, seen)]

    def _meant(self, module: Module, scope: ast.AST, name: str) -> Iterator[tuple[ast.AST, ast.expr]]:
        """What the name was set to; a parameter makes of its function one that hands on."""
        if isinstance(scope, ast.FunctionDef):
            given = [*scope.args.posonlyargs, *scope.args.args, *scope.args.kwonlyargs]
            if name in {one.arg for one in given}:
                if scope.name.startswith("_") and scope.name != "__init__":
                    module.tells.setdefault(scope.name, set()).add(name)
                return
        for where in (scope, module.tree):
            found = list(_assigned(where, name))
            yield from ((where, one) for one in found)
            if found:
                return

    def _returned(self, module: Module, scope: ast.AST, call: ast.Call, seen: set[int]) -> list[tuple[str, ast.expr]]:
        name, home = _called(call), module
        given = [*call.args, *(one.value for one in call.keywords)]
        texts = [text for one in given for text in self._plain(module, scope, one, seen)]
        if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Constant | ast.JoinedStr):
            texts += self._plain(module, scope, call.func.value, seen)
        if isinstance(call.func, ast.Name) and name in module.imports:
            origin, name = module.imports[name]
            if origin not in self.modules:
                return texts
            home = self._defining(origin, name)
        if {*PROGRAMS} & {*Path(home.path).parts}:
            return texts
        for function in home.functions.get(name, ()):
            for node in ast.walk(function):
                if isinstance(node, ast.Return | ast.Yield) and node.value is not None:
                    texts += self._plain(home, function, node.value, seen)
        return texts

    def _defining(self, origin: str, name: str) -> Module:
        module = self.modules[origin]
        while name not in module.functions and module.imports.get(name, ("", ""))[0] in self.modules:
            module = self.modules[module.imports[name][0]]
        return module


def _calls(scope: ast.AST) -> Iterator[ast.Call]:
    """Those of the scope itself, not of functions inside it."""
    for node in ast.iter_child_nodes(scope):
        if isinstance(node, ast.Call):
            yield node
        if not isinstance(node, ast.FunctionDef):
            yield from _calls(node)


def _called(call: ast.Call) -> str:
    """The last part of its name."""
    return call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")


def _owner(module: Module, call: ast.Call) -> str:
    """The class in which ``super().__init__`` is called."""
    if _called(call) != "__init__" or not isinstance(call.func, ast.Attribute):
        return ""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ClassDef) and any(one is call for one in ast.walk(node)):
            return node.name
    return ""


def _assigned(scope: ast.AST, name: str) -> Iterator[ast.expr]:
    for node in ast.iter_child_nodes(scope):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        value = getattr(node, "value", None)
        if isinstance(value, ast.expr) and any(_names(target, name) for target in targets if target is not None):
            yield value
        if not isinstance(node, ast.FunctionDef):
            yield from _assigned(node, name)


def _names(target: ast.AST, name: str) -> bool:
    return any(isinstance(one, ast.Name) and one.id == name for one in ast.walk(target))


def _text(given: ast.expr) -> str:
    if isinstance(given, ast.JoinedStr):
        return "".join(str(one.value) if isinstance(one, ast.Constant) else "{}" for one in given.values)
    return given.value if isinstance(given, ast.Constant) and isinstance(given.value, str) else ""


def _holes(given: ast.expr) -> list[ast.expr]:
    return [one.value for one in getattr(given, "values", []) if isinstance(one, ast.FormattedValue)]
