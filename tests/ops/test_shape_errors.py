"""Shapes that don't fit raise, and say which shapes and what would fit."""

import re

import numpy as np
import pytest

from uniflexflow import ops


def x(*shape, dtype="float64"):
    return np.zeros(shape, dtype)


ERRORS = {
    "add": (lambda: ops.add(x(2, 3), x(4)),
            "add: shapes (2, 3), (4,) can't be broadcast together: axis 1"),
    "where": (lambda: ops.where(x(2), x(3), x(3)), "where: shapes (2,), (3,), (3,)"),
    "sum": (lambda: ops.sum(x(2, 3), axis=2), "sum: axis 2 does not exist in a tensor of 2 dim"),
    "sum twice": (lambda: ops.sum(x(2, 3), axis=(0, -2)),
                  "sum: axis (0, -2) names a dimension twice"),
    "max": (lambda: ops.max(x(0, 3), axis=0),
            "max: the tensor of shape (0, 3) is empty along axes (0,)"),
    "argmax": (lambda: ops.argmax(x(0)), "argmax: the tensor of shape (0,) is empty along axis 0"),
    "median": (lambda: ops.median(x(0)), "median: the tensor of shape (0,) is empty"),
    "average": (lambda: ops.average(x(2, 3), 0, x(3)), "average: weights of shape (3,) don't fit"),
    "reshape": (lambda: ops.reshape(x(2, 3), (4, 2)),
                "reshape: a tensor of shape (2, 3) has 6 elements"),
    "reshape -1": (lambda: ops.reshape(x(2, 3), (-1, 4)),
                   "reshape: a tensor of shape (2, 3) can't get the shape (-1, 4)"),
    "reshape -1 -1": (lambda: ops.reshape(x(2, 3), (-1, -1)), "reshape: only one size may be -1"),
    "transpose": (lambda: ops.transpose(x(2, 3), (0, 0)), "transpose: axes (0, 0) must name each"),
    "broadcast_to": (lambda: ops.broadcast_to(x(2, 3), (2, 4)),
                     "broadcast_to: shapes (2, 3), (2, 4)"),
    "broadcast_to smaller": (lambda: ops.broadcast_to(x(2, 3), (3,)),
                             "broadcast_to: shape (2, 3) can't be broadcast to (3,)"),
    "squeeze": (lambda: ops.squeeze(x(2, 3), 1), "their sizes are (3,); expected 1"),
    "moveaxis": (lambda: ops.moveaxis(x(2, 3), (0, 1), 0), "as many destinations as sources"),
    "concatenate": (lambda: ops.concatenate([x(2, 3), x(3, 3)], 1),
                    "concatenate: shapes (2, 3), (3, 3) must be equal in every axis but axis 1"),
    "concatenate none": (lambda: ops.concatenate([]), "concatenate: expected at least one tensor"),
    "stack": (lambda: ops.stack([x(2), x(3)]),
              "stack: shapes must be equal; received [(2,), (3,)]"),
    "split": (lambda: ops.split(x(2, 3), 2, 1),
              "split: axis 1 of shape (2, 3) can't be cut into 2"),
    "unstack": (lambda: ops.unstack(x(2, 3), 3), "unstack: axis 0 of shape (2, 3) has not 3 parts"),
    "pad": (lambda: ops.pad(x(2), -1), "pad: widths must not be negative"),
    "pad mode": (lambda: ops.pad(x(2), 1, mode="wrap"), "pad: unknown mode 'wrap'"),
    "slice": (lambda: ops.slice(x(2, 3), (0, 2), (2, 2)), "leave the tensor of shape (2, 3)"),
    "slice_update": (lambda: ops.slice_update(x(2, 3), (0, 2), x(2, 2)),
                     "slice_update: a block of shape (2, 2) at (0, 2) is not inside"),
    "roll": (lambda: ops.roll(x(2, 3), (1, 2), 0), "roll: expected one shift per axis"),
    "take": (lambda: ops.take(x(2, 3), np.array([0]), axis=2), "take: axis 2 does not exist"),
    "take_along_axis": (lambda: ops.take_along_axis(x(2, 3), np.zeros((3, 1), int), 1),
                        "take_along_axis: shapes (2,), (3,)"),
    "take_along_axis ndim": (lambda: ops.take_along_axis(x(2, 3), np.zeros(2, int), 1),
                             "needs indices of 2 axes; received shape (2,)"),
    "top_k": (lambda: ops.top_k(x(2, 3), 4),
              "top_k: can't take 4 elements along the last axis of (2, 3)"),
    "scatter": (lambda: ops.scatter(np.zeros((2, 1), int), x(3), (4,)),
                "need values of shape (2,); received (3,)"),
    "segment_sum": (lambda: ops.segment_sum(x(2, 3), np.zeros(3, int), 4),
                    "segment_sum: data of shape (2, 3) needs one segment number per row"),
    "bincount": (lambda: ops.bincount(np.zeros(3, int)),
                 "bincount: expected a positive `minlength`"),
    "searchsorted": (lambda: ops.searchsorted(x(2, 2), x(3)),
                     "searchsorted: expected a rising vector"),
    "tril": (lambda: ops.tril(x(3)), "tril: expected a matrix or a stack of them; received (3,)"),
    "matmul": (lambda: ops.matmul(x(2, 3), x(4, 5)),
               "matmul: shapes (2, 3) and (4, 5) don't fit: axis -1 of the first is 3"),
    "matmul scalar": (lambda: ops.matmul(x(), x(2, 2)), "matmul: operands need an axis"),
    "matmul batch": (lambda: ops.matmul(x(2, 3, 3), x(4, 3, 3)), "matmul: shapes (2,), (4,)"),
    "tensordot": (lambda: ops.tensordot(x(2, 3), x(2, 3), 1),
                  "tensordot: axes [1] of shape (2, 3) and [0] of shape (2, 3) must have equal"),
    "einsum operands": (lambda: ops.einsum("ij,jk", x(2, 2)), "has 2 operands; received 1"),
    "einsum axes": (lambda: ops.einsum("ijk->i", x(2, 2)),
                    "'ijk' of 'ijk->i' does not fit shape (2, 2)"),
    "einsum sizes": (lambda: ops.einsum("ij,jk->ik", x(2, 3), x(4, 2)),
                     "label 'j' of 'ij,jk->ik' has the sizes 3 and 4"),
    "einsum result": (lambda: ops.einsum("ij->k", x(2, 3)), "'ij->k' is not understood"),
    "diag": (lambda: ops.diag(x(2, 2, 2)), "diag: expected a vector or a matrix"),
    "diagonal": (lambda: ops.diagonal(x(2, 2), 0, 1, 1), "diagonal: axes 1 and 1 are the same"),
    "norm": (lambda: ops.norm(x(2, 2), 3), "norm: order 3 over axes (0, 1)"),
    "softmax": (lambda: ops.softmax(x(2, 3), axis=3), "softmax: axis 3 does not exist"),
    "glu": (lambda: ops.glu(x(2, 3)), "glu: axis 1 of shape (2, 3) can't be halved"),
    "categorical_crossentropy": (lambda: ops.categorical_crossentropy(x(2, 3), x(2, 4)),
                                 "must have one shape, with an axis of classes; received (2, 3)"),
    "sparse_categorical_crossentropy": (
        lambda: ops.sparse_categorical_crossentropy(np.zeros(3, int), x(2, 4)),
        "expected `target` of shape (2,); received (3,)"),
    "binary_crossentropy": (lambda: ops.binary_crossentropy(x(2, 3), x(2, 4)),
                            "binary_crossentropy: shapes (2, 3), (2, 4)"),
    "batch_normalization": (lambda: ops.batch_normalization(x(2, 3), x(2), x(3), 1),
                            "`mean` must have shape (3,)"),
    "normalize": (lambda: ops.normalize(x(2), order=0), "normalize: expected a positive `order`"),
    "attention": (lambda: ops.dot_product_attention(x(1, 2, 2, 4), x(1, 3, 2, 5), x(1, 3, 2, 4)),
                  "query (1, 2, 2, 4), key (1, 3, 2, 5), value (1, 3, 2, 4) don't fit"),
    "attention mask": (
        lambda: ops.dot_product_attention(
            x(1, 2, 2, 4), x(1, 3, 2, 4), x(1, 3, 2, 4), mask=x(2, 2, 2, 3)),
        "a mask of shape (2, 2, 2, 3) can't be broadcast"),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_shapes(name):
    call, message = ERRORS[name]
    with pytest.raises(ValueError, match=re.escape(message)):
        call()


WRONG_TYPES = {
    "take": (lambda: ops.take(x(3), x(2)), "take: indices must be integers; received float64"),
    "one_hot": (lambda: ops.one_hot(x(3), 3), "one_hot: indices must be integers"),
    "index array": (lambda: ops.get_item(x(3), [0, 1]), "Use uff.ops.take for index arrays"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG_TYPES)
def test_types(name):
    call, message = WRONG_TYPES[name]
    with pytest.raises(TypeError, match=re.escape(message)):
        call()


def test_index_out_of_range():
    with pytest.raises(IndexError, match="index 3 is out of range for axis 0"):
        ops.get_item(x(3), 3)
    with pytest.raises(IndexError, match="2 indices for a tensor of shape"):
        ops.get_item(x(3), (0, 0))
