"""What the portal keeps between calls lies in objects with a name and an owner, not in variables of modules."""

import ast
from collections.abc import Iterator
from pathlib import Path

PORTAL = Path(__file__).parents[2] / "portal"
CONTAINERS = {
    "dict", "list", "set", "defaultdict", "deque", "Counter", "OrderedDict", "WeakKeyDictionary", "WeakValueDictionary",
}  # fmt: skip
WRITES = {
    "add", "append", "appendleft", "clear", "difference_update", "discard", "extend", "insert", "intersection_update",
    "pop", "popitem", "remove", "setdefault", "update",
}  # fmt: skip
ALLOWED = {
    "hardware/services/generations.py _senders",  # a register, complete once the apps are loaded
    "notices/letters.py _advisers",  # likewise
    "logs/consumer.py _hubs",  # one for each event loop, which is a process's own
}


def containers(tree: ast.Module) -> set[str]:
    """Names of the module that stand for a dictionary, list or set."""
    found = set()
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and is_container(node.value):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return found


def is_container(value: ast.expr | None) -> bool:
    made = ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp
    calls = isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in CONTAINERS
    return isinstance(value, made) or calls


def written(function: ast.AST) -> Iterator[str]:
    """Names that the function declares global, or whose container it changes."""
    for node in ast.walk(function):
        if isinstance(node, ast.Global):
            yield from node.names
        elif (
            isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load) and isinstance(node.value, ast.Name)
        ):
            yield node.value.id
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in WRITES:
            yield from [node.func.value.id] if isinstance(node.func.value, ast.Name) else []


def kept(text: str) -> set[str]:
    """Variables of the module that its functions change."""
    tree, found = ast.parse(text), set()
    shared = containers(tree)
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            declared = {name for node in ast.walk(function) if isinstance(node, ast.Global) for name in node.names}
            own = {node.arg for node in ast.walk(function.args) if isinstance(node, ast.arg)} | {
                node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            }
            found |= {name for name in written(function) if name in declared or name in shared - own}
    return found


def test_no_function_of_the_portal_changes_a_variable_of_its_module() -> None:
    found = {
        f"{path.relative_to(PORTAL).as_posix()} {name}"
        for path in sorted(PORTAL.rglob("*.py"))
        for name in kept(path.read_text())
    }
    assert found == ALLOWED


def test_what_is_kept_in_a_module_is_found() -> None:
    assert kept("_last = None\ndef read():\n    global _last\n    _last = 1") == {"_last"}
    assert kept("_found: dict = {}\ndef note(key):\n    _found[key] = 1") == {"_found"}
    assert kept("_all = []\ndef note(one):\n    _all.append(one)\n    del _all[:9]") == {"_all"}
    assert kept("NAMES = {}\ndef named(key):\n    names = {}\n    names[key] = NAMES[key]\n    return names") == set()
