"""Guards: nothing is in the tables of operations without its proof and its words."""

import ast
import importlib
import inspect
from pathlib import Path

import pytest
from all_cases import CASES
from oracle import float_places, gradient_of, scalar

import uniflexflow
from uniflexflow import ops
from uniflexflow.compiler import Traced
from uniflexflow.ir import Indices
from uniflexflow.ops.registry import OPS, primitive

OPS_ROOM = Path(ops.__file__).parent

# Made by passes only, or proven by tables of their own.
PROVEN_ELSEWHERE = {
    "chain": "tests/passes/test_fuse.py",
    "chain_reduce": "tests/passes/test_fuse.py",
    "chain_rows": "tests/kernels/test_chain_rows.py",
    "random_uniform": "tests/ops/test_random_uniform.py",
}


def nodes_of_cases():
    """Return every node that the rows and their gradients make."""
    found = []
    for case in CASES:
        arrays = case.arrays()
        found += Traced(case.fn, tuple(arrays), "case").graph.compute_nodes
        if case.gradient:
            gradient = gradient_of(scalar(case, arrays), float_places(arrays))
            found += Traced(gradient, tuple(arrays), "gradient").graph.compute_nodes
    return found


@pytest.fixture(scope="module")
def nodes():
    return nodes_of_cases()


def test_every_primitive_has_a_row(nodes):
    proven = {node.op.name for node in nodes} | PROVEN_ELSEWHERE.keys()
    missing = sorted(name for name in OPS.keys() - proven if not name.startswith("test_"))
    assert not missing, f"no row in the tables of operations runs {missing}"


@pytest.mark.parametrize("name", sorted(PROVEN_ELSEWHERE))
def test_what_is_proven_elsewhere_is(name):
    text = (Path(__file__).parent.parent / PROVEN_ELSEWHERE[name]).read_text()
    assert name in text or name.upper() in text


def paragraphs_of_primitives():
    """Return (operation, its place, the paragraph up to it, the docstring of its file)."""
    for path in sorted(OPS_ROOM.glob("*.py")):
        lines = path.read_text().splitlines()
        tree = ast.parse(path.read_text())
        for node in tree.body:
            call = getattr(node, "value", None)
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "primitive":
                start = node.lineno - 1
                while start and lines[start - 1].strip():
                    start -= 1
                paragraph = lines[start : node.lineno]
                where = f"{path.name}:{node.lineno}"
                yield call.args[0].value, where, paragraph, ast.get_docstring(tree)


def test_every_primitive_says_what_it_computes():
    """A row has its formula in a comment in its paragraph, or in the file's docstring."""
    rows = list(paragraphs_of_primitives())
    assert len(rows) > 25
    silent = [
        where
        for name, where, paragraph, docstring in rows
        if not any(line.startswith("#") for line in paragraph) and name not in docstring
    ]
    assert not silent, f"say the formula in a comment above the row: {silent}"


def test_indices_fit_their_operands(nodes):
    """Labels stand for each dimension; equal labels have equal sizes."""
    for node in nodes:
        if node.op.indices is None:
            continue
        indices = node.op.indices(node)
        assert isinstance(indices, Indices)
        sizes = {}
        for values, labels in ((node.inputs, indices.inputs), (node.outputs, indices.outputs)):
            assert len(values) == len(labels), node
            for value, names in zip(values, labels):
                assert len(names) == value.ndim, f"{node}: {names} for {value}"
                for name, n in zip(names, value.shape):
                    if name is not None and node.op.name != "reshape":
                        assert sizes.setdefault(name, n) == n, f"{node}: {name} is {n}"


def test_linear_is_a_known_word():
    assert {op.linear for op in OPS.values()} <= {"", "all", "one"}


def test_a_name_is_defined_once():
    with pytest.raises(ValueError, match="operation 'add' is already defined"):
        primitive("add", infer=None, reference=None, gradient=None)


def modules_with_names():
    for path in sorted(OPS_ROOM.glob("*.py")):
        if path.stem in ("__init__", "random", "chain"):
            continue
        module = importlib.import_module(f"uniflexflow.ops.{path.stem}")
        if hasattr(module, "__all__"):
            yield module


def test_every_public_operation_is_exported():
    for module in modules_with_names():
        for name in module.__all__:
            if name.isupper():
                continue
            assert getattr(ops, name, None) is getattr(module, name), f"ops.{name}"
            assert name in ops.__all__, f"ops.__all__ lacks {name}"


@pytest.mark.parametrize("name", sorted(ops.__all__))
def test_every_public_operation_has_a_docstring(name):
    doc = inspect.getdoc(getattr(ops, name))
    assert doc and doc.splitlines()[0].rstrip().endswith((".", ":")), f"ops.{name}: {doc!r}"


def test_no_assert_in_the_package():
    """Python may run without asserts: errors are raised."""
    found = []
    for path in Path(uniflexflow.__file__).parent.rglob("*.py"):
        lines = path.read_text().splitlines()
        found += [
            f"{path.name}:{i}"
            for i, line in enumerate(lines, 1)
            if line.strip().startswith("assert ") and "noqa: S101" not in line
        ]
    assert not found
