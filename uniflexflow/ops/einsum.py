"""Einstein's notation, written in transposes, reshapes and matrix products."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from numpy.typing import ArrayLike

from uniflexflow.ir import Value, apply
from uniflexflow.ops.contraction import MATMUL, matmul
from uniflexflow.ops.dispatch import meet, op
from uniflexflow.ops.dtypes import is_float
from uniflexflow.ops.linear_algebra import diagonal
from uniflexflow.ops.reduction import sum as sum_over
from uniflexflow.ops.shaping import broadcast_to, reshape, transpose

__all__ = ["einsum"]

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def _parse(subscripts: str, shapes: Sequence[tuple[int, ...]]) -> tuple[list[str], str]:
    """Return one label per axis of each operand and of the result; no ellipsis is left."""
    text = subscripts.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(shapes):
        raise ValueError(
            f"einsum: {subscripts!r} has {len(terms)} operands; received {len(shapes)}."
        )
    spare = [c for c in _LETTERS if c not in text]
    # the axes of an ellipsis get letters from the right: they are broadcast
    widest = 0
    for term, shape in zip(terms, shapes):
        named = len(term.replace("...", ""))
        extra = len(shape) - named
        if (extra and "..." not in term) or extra < 0 or term.count("...") > 1:
            raise ValueError(
                f"einsum: the operand {term!r} of {subscripts!r} does not fit shape {shape}."
            )
        widest = max(widest, extra if "..." in term else 0)
    if widest > len(spare):
        raise ValueError(f"einsum: too many axes in {subscripts!r}.")
    letters = "".join(spare[:widest])
    labels = []
    for term, shape in zip(terms, shapes):
        extra = len(shape) - len(term.replace("...", ""))
        labels.append(term.replace("...", letters[widest - extra :] if extra else ""))
    if arrow:
        out = right.replace("...", letters)
    else:
        joined = "".join(labels)
        out = letters + "".join(
            sorted(c for c in set(joined) if joined.count(c) == 1 and c not in letters)
        )
    known = set("".join(labels))
    if len(set(out)) != len(out) or not set(out) <= known or not known <= set(_LETTERS):
        raise ValueError(
            f"einsum: {subscripts!r} is not understood: labels are letters, and those of the "
            "result must differ and stand in an operand."
        )
    return labels, out


def _sizes(subscripts: str, labels: list[str], values: Sequence[Value]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for term, value in zip(labels, values):
        for c, n in zip(term, value.shape):
            if sizes.get(c, 1) != 1 and n not in (1, sizes[c]):
                raise ValueError(
                    f"einsum: label {c!r} of {subscripts!r} has the sizes {sizes[c]} and {n}; "
                    f"received shapes {', '.join(str(v.shape) for v in values)}."
                )
            sizes[c] = n if n != 1 else sizes.get(c, 1)
    return sizes


def _take_diagonals(labels: str, value: Value) -> tuple[str, Value]:
    for c in dict.fromkeys(labels):
        while labels.count(c) > 1:
            a = labels.index(c)
            b = labels.index(c, a + 1)
            value = diagonal(value, 0, a, b)
            labels = labels[:a] + labels[a + 1 : b] + labels[b + 1 :] + c
    return labels, value


def _prepared(
    labels: str, value: Value, needed: set[str], sizes: dict[str, int]
) -> tuple[str, Value]:
    """Take diagonals, sum what nobody else needs, and give every axis its full size."""
    labels, value = _take_diagonals(labels, value)
    full = tuple(sizes[c] for c in labels)
    value = broadcast_to(value, full)
    lonely = tuple(i for i, c in enumerate(labels) if c not in needed)
    if lonely:
        value = sum_over(value, lonely)
        labels = "".join(c for c in labels if c in needed)
    return labels, value


def _in_order(labels: str, value: Value, order: str) -> Value:
    return transpose(value, [labels.index(c) for c in order])


def _product(
    a_labels: str, a: Value, b_labels: str, b: Value, later: set[str], sizes: dict[str, int]
) -> tuple[str, Value]:
    """Contract two operands: labels of both that are not needed later are summed over."""
    both = [c for c in a_labels if c in b_labels]
    batch = "".join(c for c in both if c in later)
    summed = "".join(c for c in both if c not in later)
    rows = "".join(c for c in a_labels if c not in both)
    columns = "".join(c for c in b_labels if c not in both)
    out = batch + rows + columns

    def count(part: str) -> int:
        return math.prod(sizes[c] for c in part)

    if not summed:
        left = reshape(
            _in_order(a_labels, a, batch + rows),
            tuple(sizes[c] for c in batch + rows) + (1,) * len(columns),
        )
        right = reshape(
            _in_order(b_labels, b, batch + columns),
            tuple(sizes[c] for c in batch) + (1,) * len(rows) + tuple(sizes[c] for c in columns),
        )
        return out, left * right
    # use the flags of the product where an operand already lies the other way round
    transpose_a = a_labels == batch + summed + rows and bool(rows)
    transpose_b = b_labels == batch + columns + summed
    lead = tuple(sizes[c] for c in batch)
    m, n, k = count(rows), count(columns), count(summed)
    if transpose_a:
        left = reshape(a, (*lead, k, m))
    else:
        left = reshape(_in_order(a_labels, a, batch + rows + summed), (*lead, m, k))
    if transpose_b:
        right = reshape(b, (*lead, n, k))
    else:
        right = reshape(_in_order(b_labels, b, batch + summed + columns), (*lead, k, n))
    if is_float(a.dtype):
        made = apply(MATMUL, left, right, transpose_a=transpose_a, transpose_b=transpose_b)
    else:
        swap = (*range(len(lead)), len(lead) + 1, len(lead))
        made = matmul(
            transpose(left, swap) if transpose_a else left,
            transpose(right, swap) if transpose_b else right,
        )
    return out, reshape(made, tuple(sizes[c] for c in out))


@op
def einsum(subscripts: str, *operands: ArrayLike) -> Any:
    """Sum products of elements, named by one letter per axis.

    Parameters
    ----------
    subscripts : str
        Such as ``"bij,bjk->bik"``. Letters that are missing in the result are summed over.
        Without ``->`` the result has the letters that stand once, in the order of the
        alphabet. ``...`` stands for axes that are broadcast. A letter twice in one operand
        takes the diagonal.
    *operands : tensors
        More than two are contracted from left to right.

    Examples
    --------
    >>> einsum("ij,j->i", [[1.0, 2.0], [0.0, 1.0]], [3.0, 4.0])
    array([11.,  4.], dtype=float32)
    """
    if not operands:
        raise ValueError("einsum: expected at least one operand; received none.")
    values = meet(*operands)
    terms, out = _parse(subscripts, [v.shape for v in values])
    sizes = _sizes(subscripts, terms, values)
    ready = []
    for i, (labels, value) in enumerate(zip(terms, values)):
        needed = set(out).union(*[terms[j] for j in range(len(terms)) if j != i])
        ready.append(_prepared(labels, value, needed, sizes))
    labels, value = ready[0]
    for i, (other_labels, other) in enumerate(ready[1:], start=1):
        later = set(out).union(*[term for term, _ in ready[i + 1 :]])
        labels, value = _product(labels, value, other_labels, other, later, sizes)
    return _in_order(labels, value, out)
