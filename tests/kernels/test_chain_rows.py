"""Chains over a table of summed rows: the numbers of the two operations that they replace."""

import numpy as np
import pytest
from lowered import check

import uniflexflow as uff
from uniflexflow import ir, ops
from uniflexflow.compiler import Function
from uniflexflow.passes.fuse import fuse

# registers: weights, the table's gradient, then the steps
STEP = (
    ("multiply", (), (1, 1)),
    ("add", (), (0, 2)),
    ("subtract", (), (0, 1)),
)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("width", [1, 7, 64, 300])
@pytest.mark.parametrize("index", ["int32", "int64"])
def test_rows_are_summed_where_they_belong(isa, rng, dtype, width, index):
    for rows, count in ((1, 3), (50, 0), (50, 20), (900, 5000)):
        weights = rng.integers(-9, 9, (rows, width)).astype(dtype)
        g = rng.integers(-9, 9, (count, width)).astype(dtype)
        # from the end too, and outside, where they are left out
        indices = rng.integers(-rows - 2, rows + 2, count).astype(index)
        check("chain_rows", weights, g, indices, program=STEP, results=(3, 4),
              shape=weights.shape)  # fmt: skip


def test_other_operands_are_broadcast(isa, rng):
    x, scale = rng.normal(size=(40, 24)).astype("float32"), np.float32(0.5)
    columns, rows = (
        rng.normal(size=24).astype("float32"),
        rng.normal(size=(40, 1)).astype("float32"),
    )
    g, indices = rng.normal(size=(2, 30, 24)).astype("float32"), rng.integers(0, 40, (2, 30))
    program = (
        ("multiply", (), (4, 1)),
        ("add", (), (5, 2)),
        ("add", (), (6, 3)),
        ("add", (), (7, 0)),
    )
    check("chain_rows", x, scale, columns, rows, g, indices, program=program, results=(8,),
          shape=(40, 24), ulp=4, scale=8)  # fmt: skip


def update(x, table, ids):
    """A step of an optimizer on an embedding."""
    taken = ops.take(table, ids, axis=0)
    (g,) = uff.gradients(ops.sum(ops.square(taken) * x), [table])
    return table - 0.1 * g / (ops.abs(g) + 1.0)


def test_an_update_of_a_large_table_is_fused(rng):
    table = rng.normal(size=(5000, 64)).astype("float32")
    ids = rng.integers(0, 5000, (8, 40)).astype("int32")
    x = rng.normal(size=(8, 40, 1)).astype("float32")
    step, feeds = Function(update).step(x, table, ids)
    names = [node.op.name for node in step.graph.nodes]
    assert "chain_rows" in names and "take_gradient" not in names
    g = np.zeros_like(table)
    np.add.at(g, ids, 2 * table[ids] * x)
    np.testing.assert_allclose(step.run(feeds)[0], table - 0.1 * g / (abs(g) + 1), rtol=1e-5)


def test_what_is_not_fused():
    def graph(rows, also_returned):
        g = ir.leaf((30, 64), "float32", "g")
        ids = ir.leaf((30,), "int32", "ids")
        table = ops.segment_sum(g, ids, rows)
        out = ops.exp(table) * 2.0
        return ir.Graph(inputs=(g, ids), outputs=(out, table) if also_returned else (out,))

    def names(*args):
        return [node.op.name for node in fuse(graph(*args)).nodes]

    assert "chain_rows" in names(5000, False)
    assert "take_gradient" in names(50, False)  # small
    assert "take_gradient" in names(5000, True)  # read by others
