"""The house stands: a file imports only what is below it, and some doors have one key.

``LEVELS`` is the order, from the ground up; docs/design/index.md shows it. A row names
rooms, or single modules where a room's parts stand at different heights (the longest
name that fits counts). Modules of one row may import each other; no cycle may arise.
"""

import ast
import functools
import re
from collections import defaultdict
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "uniflexflow"

LEVELS = (
    ("tree", "naming"),
    ("ir",),
    ("ops",),
    ("random", "dtype_policies"),
    ("_core.node_sum", "_core.bfloat16"),
    ("runtime.launch", "runtime.failure", "runtime.node_memory", "runtime.comm"),
    ("parallel",),
    ("passes",),
    ("plan",),
    ("machine", "_core"),
    ("runtime",),
    ("parallel.distribute",),
    ("compiler",),
    ("saving.registry", "layers.auto_config", "saving.serialization"),
    ("activations", "initializers", "regularizers", "constraints"),
    ("layers",),
    ("losses",),
    ("metrics",),
    ("optimizers",),
    ("saving",),
    ("data", "datasets"),
    ("training.display", "training.progress"),
    ("config", "mixed_precision"),
    ("callbacks",),
    ("training",),
    ("models",),
    ("utils", "distribution"),
    ("",),  # the package's own __init__
)

#: Upward imports within functions, each with its reason.
LATE = {
    ("machine.report", ""): "the version",
    ("machine.stored", ""): "the version",
    ("layers.weights", "metrics.metric"): "tells a layer's metrics from its other state",
    ("saving.serialization", "activations"): "finds a function by the name in a file",
    ("saving.weight_paths", "models"): "containers have paths of their own in Keras's files",
}

#: Packages that one place alone may import.
DOORS = {
    "mpi4py": "runtime.comm",
    "h5py": "saving",
}


@functools.cache
def files():
    return [p for kind in ("*.py", "*.pyx", "*.pxd") for p in sorted(PACKAGE.rglob(kind))]


def module_of(path):
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(p) for p in files()}


@functools.cache
def level(module):
    """Return the height of a module: that of the longest name in LEVELS that fits."""
    best = None
    for height, names in enumerate(LEVELS):
        for name in names:
            fits = module == name or (name and module.startswith(f"{name}."))
            if fits and (best is None or len(name) > len(best[1])):
                best = height, name
    return best and best[0]


def python_imports(text):
    tree = ast.parse(text)
    inside = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
        for node in ast.walk(function)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (f"{node.module}." if node.module else "")
            names = [module + alias.name for alias in node.names]
        else:
            continue
        for name in names:
            yield name, id(node) in inside


CYTHON = re.compile(
    r"^([ \t]*)(?:from\s+([\w.]+)\s+c?import\s+(?:\(([^)]*)\)|([^(#\n]+))|c?import\s+([\w., ]+))",
    re.MULTILINE,
)


def cython_imports(text):
    """Find imports in Cython, where cimports count like imports."""
    for indent, module, inside, names, modules in CYTHON.findall(text):
        for name in (inside or names or modules).split(","):
            if name := name.split(" as ")[0].strip():
                yield (f"{module}.{name}" if module else name), bool(indent)


@functools.cache
def imports(path):
    """Return (what is imported, whether within a function) for a file."""
    find = python_imports if path.suffix == ".py" else cython_imports
    return tuple(find(path.read_text()))


def own(name):
    """Return the module of this package that an imported name is or comes from, or None."""
    if name != "uniflexflow" and not name.startswith("uniflexflow."):
        return None
    name = name.removeprefix("uniflexflow").removeprefix(".")
    while name and name not in MODULES:
        name = name.rpartition(".")[0]
    return name


EDGES = sorted(
    {
        (module_of(path), own(name), late)
        for path in files()
        for name, late in imports(path)
        if own(name) is not None and own(name) != module_of(path)
    }
)


def test_every_module_has_its_place():
    assert not [m for m in sorted(MODULES) if level(m) is None]


def test_no_name_in_the_table_is_idle():
    for names in LEVELS:
        for name in names:
            known = any(m == name or m.startswith(f"{name}.") for m in MODULES)
            assert known, f"LEVELS names {name!r}, which is no module"


def test_nothing_imports_upwards():
    wrong = [
        f"{source} (level {level(source)}) imports {target} (level {level(target)})"
        for source, target, late in EDGES
        if not late and level(target) > level(source)
    ]
    assert not wrong, "\n".join(wrong)


def test_upward_imports_within_functions_are_known():
    up = {(s, t) for s, t, late in EDGES if late and level(t) > level(s)}
    wrong = [f"{s} imports {t}" for s, t in sorted(up) if not allowed_late(s, t)]
    assert not wrong, "\n".join(wrong)


def allowed_late(source, target):
    return any(covers(a, source) and covers(b, target) for a, b in LATE)


def covers(name, module):
    return module == name or module.startswith(f"{name}.")


def test_no_permission_is_idle():
    up = {(s, t) for s, t, late in EDGES if late and level(t) > level(s)}
    for a, b in LATE:
        assert any(covers(a, s) and covers(b, t) for s, t in up), f"{a} no longer imports {b}"


def test_no_cycle():
    assert cycle_in([(s, t) for s, t, late in EDGES if not late]) is None


def cycle_in(edges):
    """Return the modules of a cycle, or None."""
    below = defaultdict(list)
    for source, target in edges:
        below[source].append(target)
    done, path = set(), []

    def visit(module):
        if module in path:
            return [*path[path.index(module) :], module]
        if module in done:
            return None
        path.append(module)
        found = next(filter(None, map(visit, below[module])), None)
        done.add(path.pop())
        return found

    return next(filter(None, map(visit, sorted(below))), None)


def test_imports_name_the_package():
    relative = [
        f"{module_of(p)}: {name}" for p in files() for name, _ in imports(p) if name[:1] == "."
    ]
    assert not relative


@pytest.mark.parametrize("package", DOORS)
def test_one_door(package):
    wrong = [
        module_of(path)
        for path in files()
        for name, _ in imports(path)
        if name.split(".")[0] == package and not covers(DOORS[package], module_of(path))
    ]
    assert not wrong


# -- the test itself: it must see what it forbids ------------------------------------------


def test_it_sees_all_kinds_of_imports():
    python = "import a.b\nfrom c import d\ndef f():\n    from e import g\nfrom . import h\n"
    assert set(python_imports(python)) == {
        ("a.b", False), ("c.d", False), ("e.g", True), (".h", False),
    }  # fmt: skip
    cython = (
        "from a.b cimport c, d\nfrom e cimport (\n    f,\n    g,\n)\ncimport h\nimport i\n"
        "def k():\n    from l import m\ncdef extern from 'x.h':\n    pass\n"
    )
    assert set(cython_imports(cython)) == {
        ("a.b.c", False), ("a.b.d", False), ("e.f", False), ("e.g", False), ("h", False),
        ("i", False), ("l.m", True),
    }  # fmt: skip


def test_it_sees_cycles():
    assert cycle_in([("a", "b"), ("b", "c")]) is None
    assert cycle_in([("x", "a"), ("a", "b"), ("b", "c"), ("c", "a")]) == ["a", "b", "c", "a"]


def test_it_knows_heights():
    assert level("parallel.layout") < level("passes.shard") < level("parallel.distribute")
    assert level("") == len(LEVELS) - 1
    assert own("uniflexflow.ir.Value") == "ir"
    assert own("uniflexflow._core.core.uff_arg") == "_core.core"
    assert own("numpy") is None and own("uniflexflowers") is None
