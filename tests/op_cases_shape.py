"""Rows of the operations on shapes, indices, order, and matrices; see ``op_case``."""

import numpy as np
from op_case import Case, distinct, given, real, truth, whole

from uniflexflow import ops
from uniflexflow.ir import apply
from uniflexflow.ops.registry import OPS

T = (2, 3, 4)


def with_(f, *args, **kwargs):
    return lambda x: f(x, *args, **kwargs)


def same(name, *args, draw=None, **kwargs):
    """Return a row for a function that NumPy has with the same arguments."""
    what = ", ".join([*map(str, args), *[f"{k}={v}" for k, v in kwargs.items()]])
    return Case(
        f"{name}({what})",
        with_(getattr(ops, name), *args, **kwargs),
        [draw or real(*T)],
        with_(getattr(np, name), *args, **kwargs),
    )


SHAPING = [
    same("reshape", (6, 4)), same("reshape", (-1, 2)), same("reshape", (2, 12)),
    same("ravel"), same("transpose"), same("transpose", (1, 0, 2)), same("transpose", (2, 0, 1)),
    same("transpose", (0, 2, 1)), same("swapaxes", 0, -1), same("moveaxis", 0, 2),
    same("moveaxis", (0, 1), (-1, 0)), same("broadcast_to", (5, 2, 3, 4)),
    same("broadcast_to", (2, 3, 4), draw=real(3, 1)), same("expand_dims", 1),
    same("expand_dims", (0, -1)), same("squeeze", draw=real(1, 3, 1)),
    same("squeeze", -1, draw=real(1, 3, 1)),
    Case("transpose integers", ops.transpose, [whole(*T)], np.transpose, gradient=False),
]  # fmt: skip

KEYS = {
    "first": np.s_[0], "last": np.s_[-1], "range": np.s_[:, 1:3], "step": np.s_[:, ::2],
    "back": np.s_[:, ::-1], "back by 2": np.s_[..., 3:0:-2], "new": np.s_[:, None, 1],
    "ellipsis": np.s_[..., 0], "empty": np.s_[:, 2:2], "all": np.s_[1, 2, 3], "whole": np.s_[:],
}  # fmt: skip
SLICING = [
    *[Case(f"get_item {k}", lambda x, s=s: x[s], [real(*T)], lambda x, s=s: x[s])
      for k, s in KEYS.items()],
    Case("concatenate 0", lambda a, b: ops.concatenate([a, b]), [real(2, 3), real(1, 3)],
         lambda a, b: np.concatenate([a, b])),
    Case("concatenate -1", lambda a, b, c: ops.concatenate([a, b, c], -1),
         [real(2, 3, 1), real(2, 3, 0), real(2, 3, 2)], lambda *x: np.concatenate(x, -1)),
    Case("concatenate mixed", lambda a, b: ops.concatenate([a, b]), [real(2), whole(3)],
         lambda a, b: np.concatenate([a, b])),
    Case("stack", lambda a, b: ops.stack([a, b], 1), [real(2, 3), real(2, 3)],
         lambda a, b: np.stack([a, b], 1)),
    Case("hstack", lambda a, b: ops.hstack([a, b]), [real(2, 3), real(2, 1)],
         lambda a, b: np.hstack([a, b])),
    Case("vstack", lambda a, b: ops.vstack([a, b]), [real(3), real(2, 3)],
         lambda a, b: np.vstack([a, b])),
    Case("append", ops.append, [real(2, 3), real(4)], np.append),
    Case("split 2", with_(ops.split, 2, -1), [real(*T)], with_(np.split, 2, -1)),
    Case("split places", with_(ops.split, [1, 3], 2), [real(*T)], with_(np.split, [1, 3], 2)),
    Case("unstack", with_(ops.unstack, axis=1), [real(*T)],
         lambda x: [x[:, i] for i in range(3)]),
    Case("slice", with_(ops.slice, (0, 1, 1), (2, 2, -1)), [real(*T)], lambda x: x[:, 1:, 1:]),
    Case("slice_update", lambda x, u: ops.slice_update(x, (0, 1, 1), u), [real(*T), real(2, 1, 2)],
         lambda x, u: np.concatenate(
             [x[:, :1], np.concatenate([x[:, 1:2, :1], u, x[:, 1:2, 3:]], 2), x[:, 2:]], 1)),
    same("diff"),
    same("diff", 2, axis=1),
    same("flip"), same("flip", 1), same("flip", (0, 2)),
    same("pad", 1), same("pad", (1, 2)), same("pad", ((0, 0), (1, 0), (2, 3))),
    same("pad", ((0, 0), (1, 2), (2, 0)), mode="reflect"),
    same("pad", ((1, 1), (1, 2), (0, 0)), mode="symmetric"),
    same("pad", ((1, 1), (0, 2), (0, 0)), mode="edge"),
    Case("pad value", with_(ops.pad, ((0, 0), (1, 0)), constant_values=7.0), [real(2, 3)],
         with_(np.pad, ((0, 0), (1, 0)), constant_values=7.0)),
    same("tile", 2), same("tile", (2, 1, 3)), same("tile", (2, 1, 1, 2)),
    same("tile", (2, 3), draw=real(4)), same("repeat", 2), same("repeat", 3, axis=1),
    same("repeat", [1, 0, 2], axis=1), same("roll", 1), same("roll", -1, axis=1),
    same("roll", (1, 5), axis=(0, 2)),
]  # fmt: skip

INDEXING = [
    *[Case(f"take axis={a}", lambda x, i, a=a: ops.take(x, i, axis=a),
           [real(*T), given([[1, 0, -1], [1, 1, 0]], "int32")],
           lambda x, i, a=a: np.take(x, i, axis=a)) for a in (None, 0, 1, 2)],
    Case("take scalar index", lambda x, i: ops.take(x, i, axis=1), [real(*T), given(2, "int64")],
         lambda x, i: np.take(x, i, axis=1)),
    Case("take out of range", lambda x, i: ops.take(x, i, axis=0),
         [real(3, 2), given([3, -4, 0], "int32")],
         lambda x, i: np.stack([x[0] * np.nan, x[0] * np.nan, x[0]]), gradient=False),
    Case("take integers out of range", lambda x, i: ops.take(x, i, axis=0),
         [whole(3, 2, low=1), given([3, 2], "int32")], lambda x, i: np.stack([x[0] * 0, x[2]]),
         gradient=False),
    Case("take of uint8 indices", lambda x, i: ops.take(x, i, axis=0),
         [real(3, 2), whole(4, high=3, dtype="uint8")], lambda x, i: x[i]),
    Case("embedding", lambda x, i: ops.take(x, i, axis=0), [real(20, 3), whole(4, 6, high=20)],
         lambda x, i: x[i]),
    *[Case(f"take_along_axis {a}", lambda x, i, a=a: ops.take_along_axis(x, i, axis=a),
           [real(3, 3), given([[0, 2, 1], [1, 1, -1]] if a == 0 else [[0, 2], [1, 1], [2, -3]],
                              "int32")],
           lambda x, i, a=a: np.take_along_axis(x, i, axis=a)) for a in (0, 1)],
    Case("take_along_axis one", lambda x, i: ops.take_along_axis(x, i, axis=-1),
         [real(4, 3), given([[0], [2], [-1], [1]], "int64")],
         lambda x, i: np.take_along_axis(x, i, axis=-1)),
    Case("take_along_axis broadcast", lambda x, i: ops.take_along_axis(x, i, axis=-1),
         [real(2, 3, 4), given([[[0, 3]]], "int32")], lambda x, i: x[..., [0, 3]]),
    Case("take_along_axis out of range", lambda x, i: ops.take_along_axis(x, i, axis=-1),
         [real(2, 3), given([[0, 3], [-4, 1]], "int32")],
         lambda x, i: np.array([[x[0, 0], np.nan], [np.nan, x[1, 1]]]), gradient=False),
    Case("one_hot", with_(ops.one_hot, 4), [given([[0, 3], [4, -1]], "int32")],
         lambda i: (i[..., None] == np.arange(4)).astype("float32"), gradient=False),
    Case("one_hot axis 0", with_(ops.one_hot, 4, axis=0), [whole(2, 3, high=4, dtype="uint8")],
         lambda i: (i[None] == np.arange(4)[:, None, None]).astype("float32"), gradient=False),
    Case("one_hot beyond the dtype", with_(ops.one_hot, 300), [given([200], "uint8")],
         lambda i: (i[..., None] == np.arange(300)).astype("float32"), gradient=False),
    Case("multi_hot", with_(ops.multi_hot, 4), [given([[0, 3, 3], [1, 1, 5]], "int32")],
         lambda i: np.array([[1, 0, 0, 1], [0, 1, 0, 0]], "float32"), gradient=False),
    Case("scatter", lambda i, v: ops.scatter(i, v, (3, 2)),
         [given([[0], [2], [0], [5]], "int32"), real(4, 2)],
         lambda i, v: np.stack([v[0] + v[2], v[0] * 0, v[1]])),
    Case("scatter places", lambda i, v: ops.scatter(i, v, (3, 2)),
         [given([[0, 1], [2, 0], [-1, 0], [0, 2]], "int32"), real(4)],
         lambda i, v: np.array([[0, v[0]], [0, 0], [v[1] + v[2], 0]])),
    Case("scatter_update", lambda x, i, v: ops.scatter_update(x, i, v),
         [real(3, 2), given([[0], [2]], "int32"), real(2, 2)],
         lambda x, i, v: np.stack([v[0], x[1], v[1]])),
    Case("segment_sum", lambda x, i: ops.segment_sum(x, i, 3),
         [real(5, 2), given([0, 2, 0, -1, 3], "int32")],
         lambda x, i: np.stack([x[0] + x[2], x[0] * 0, x[1]])),
    Case("bincount", with_(ops.bincount, minlength=4), [given([1, 1, 3, 4, 0], "int32")],
         lambda x: np.array([1, 2, 0, 1]), gradient=False),
    Case("bincount weighted", lambda x, w: ops.bincount(x, w, minlength=3),
         [whole(9, high=3), real(9)],
         lambda x, w: np.bincount(x, w, minlength=3), terms=9),
]  # fmt: skip

ORDER = [
    same("sort", draw=distinct(*T)), same("sort", axis=0, draw=distinct(*T)),
    same("sort", axis=None, draw=distinct(*T)),
    Case("sort with nan", ops.sort, [given([3.0, np.nan, -np.inf, 1.0])], np.sort, gradient=False),
    *[Case(f"argsort {a}", with_(ops.argsort, axis=a), [distinct(*T)],
           with_(np.argsort, axis=a), gradient=False) for a in (None, 0, -1)],
    Case("argsort ties", ops.argsort, [whole(3, 20, high=3)],
         lambda x: np.argsort(x, axis=-1, kind="stable"), gradient=False),
    Case("top_k", lambda x: ops.top_k(x, 2)[0], [distinct(*T)],
         lambda x: np.sort(x, -1)[..., ::-1][..., :2]),
    Case("top_k places", lambda x: ops.top_k(x, 3)[1], [given([[1.0, 3, 3, 2], [4, 4, 4, 4]])],
         lambda x: np.array([[1, 2, 3], [0, 1, 2]]), gradient=False),
    Case("in_top_k", lambda t, p: ops.in_top_k(t, p, 2),
         [given([2, 0, 1, 4, -1], "int32"), given([[1, 2, 2, 0.0]] * 5)],
         lambda t, p: np.array([True, False, True, False, False]), gradient=False),
    *[same("cumsum", axis=a, draw=real(*T)) for a in (None, 0, 1, -1)],
    Case("cumsum integers", with_(ops.cumsum, axis=1), [whole(*T)], with_(np.cumsum, axis=1),
         gradient=False),
    same("median", axis=1, draw=distinct(*T)), same("median", draw=distinct(*T)),
    same("median", axis=2, keepdims=True, draw=distinct(*T)),
    *[Case(f"searchsorted {side}", lambda e, v, side=side: ops.searchsorted(e, v, side),
           [given([1.0, 2.0, 2.0, 3.0]), given([[0.0, 2.0], [3.0, 9.0]])],
           lambda e, v, side=side: np.searchsorted(e, v, side), gradient=False)
      for side in ("left", "right")],
]  # fmt: skip

CREATION = [
    Case(
        "digitize",
        lambda x, b: ops.digitize(x, b),
        [given([0.0, 1.0, 2.5]), given([1.0, 2.0])],
        np.digitize,
        gradient=False,
    ),
    Case("zeros_like", ops.zeros_like, [real(*T)], np.zeros_like, gradient=False),
    Case("ones_like", ops.ones_like, [real(*T)], np.ones_like, gradient=False),
    Case("full_like", with_(ops.full_like, 3), [real(*T)], with_(np.full_like, 3), gradient=False),
    Case("full", lambda x: ops.full((2, 3), x), [real(3)], lambda x: np.full((2, 3), x)),
    Case("tril", with_(ops.tril, 1), [real(2, 3, 4)], with_(np.tril, 1)),
    Case("triu", with_(ops.triu, -1), [real(2, 4, 3)], with_(np.triu, -1)),
    Case("meshgrid", lambda a, b: ops.meshgrid(a, b), [real(2), real(3)],
         lambda a, b: list(np.meshgrid(a, b))),
    Case("meshgrid ij", lambda a, b: ops.meshgrid(a, b, indexing="ij"), [real(2), real(3)],
         lambda a, b: list(np.meshgrid(a, b, indexing="ij"))),
]  # fmt: skip

MATMULS = {
    "2x2": ((3, 4), (4, 5)), "stack": ((2, 3, 4), (2, 4, 5)),
    "broadcast": ((2, 1, 3, 4), (5, 4, 2)),
    "stack by matrix": ((2, 3, 4), (4, 5)), "matrix by stack": ((3, 4), (2, 4, 5)),
    "vector left": ((4,), (4, 5)), "vector right": ((3, 4), (4,)), "vectors": ((4,), (4,)),
    "vector by stack": ((4,), (2, 4, 5)), "row": ((1, 4), (4, 3)), "no k": ((3, 0), (0, 2)),
    "long": ((5, 70), (70, 33)),
}  # fmt: skip
EINSUMS = {
    "bij,bjk->bik": ((2, 3, 4), (2, 4, 5)), "bij,bjk->bki": ((2, 3, 4), (2, 4, 5)),
    "bij->b": (T,), "ii->i": ((3, 3),), "ii": ((3, 3),), "ij,j": ((3, 4), (4,)),
    "...ij,...jk->...ik": ((2, 3, 4), (4, 5)), "bij,bjk,kl->bl": ((2, 3, 4), (2, 4, 5), (5, 2)),
    "i,j->ij": ((3,), (4,)), "bji,bjk->bik": ((2, 4, 3), (2, 4, 5)),
    "bij,bkj->bik": ((2, 3, 4), (2, 5, 4)), "aij,bjk->": ((2, 3, 4), (2, 4, 5)),
    "ij,ij->ij": ((3, 4), (3, 4)), "btd,dnh->btnh": ((2, 3, 4), (4, 2, 3)),
    "bqnh,bknh->bnqk": ((2, 3, 2, 4), (2, 5, 2, 4)),
    "bnqk,bknh->bqnh": ((2, 2, 3, 5), (2, 5, 2, 4)),
    "iij->ji": ((3, 3, 2),), "ij,jk->ki": ((1, 4), (4, 3)),
}  # fmt: skip
MATRICES = [
    *[Case(f"matmul {k}", ops.matmul, [real(*a), real(*b)], np.matmul, terms=70)
      for k, (a, b) in MATMULS.items()],
    *[
        Case(
            f"dense {activation}",
            lambda a, b, c, f=activation: apply(
                OPS["dense"], a, b, c, transpose_a=False, transpose_b=True, activation=f
            ),
            [real(6, 4), real(5, 4), real(5)],
            lambda a, b, c, f=activation: np.maximum(a @ b.T + c, 0 if f else -np.inf),
            gradient=False,
            terms=4,
        )
        for activation in (None, "relu")
    ],
    Case("matmul integers", ops.matmul, [whole(3, 4), whole(4, 2)], np.matmul, gradient=False),
    *[Case(f"einsum {k}", lambda *x, k=k: ops.einsum(k, *x), [real(*s) for s in shapes],
           lambda *x, k=k: np.einsum(k, *x), terms=20) for k, shapes in EINSUMS.items()],
    Case("dot", ops.dot, [real(2, 3, 4), real(5, 4, 2)], np.dot, terms=4),
    Case("inner", ops.inner, [real(2, 3, 4), real(5, 4)], np.inner, terms=4),
    Case("vdot", ops.vdot, [real(2, 3), real(2, 3)], np.vdot, terms=6),
    Case("outer", ops.outer, [real(2, 2), real(3)], np.outer),
    Case("tensordot", lambda a, b: ops.tensordot(a, b, [[0, 2], [1, 0]]),
         [real(2, 3, 4), real(4, 2)],
         lambda a, b: np.tensordot(a, b, [[0, 2], [1, 0]]), terms=8),
    Case("tensordot 0", lambda a, b: ops.tensordot(a, b, 0), [real(2), real(3)],
         lambda a, b: np.tensordot(a, b, 0)),
    *[Case(f"diagonal {k}", with_(ops.diagonal, k, 1, 2), [real(*T)], with_(np.diagonal, k, 1, 2))
      for k in (0, 1, -1, 9)],
    *[Case(f"diag of a vector {k}", with_(ops.diag, k), [real(3)], with_(np.diag, k))
      for k in (0, 2, -1)],
    Case("diag of a matrix", ops.diag, [real(3, 4)], np.diag),
    Case("trace", with_(ops.trace, 0, 1, 2), [real(*T)], with_(np.trace, 0, 1, 2), terms=3),
    *[Case(f"norm {o} of vectors", with_(ops.norm, o, axis=1), [distinct(3, 4)],
           lambda x, o=o: np.linalg.norm(x, o, axis=1), terms=4)
      for o in (None, 1, 2, 3, np.inf, -np.inf)],
    Case("norm 0", with_(ops.norm, 0, axis=0), [given([[0.0, 1.0], [2.0, 3.0]])],
         lambda x: np.linalg.norm(x, 0, axis=0), gradient=False),
    *[Case(f"norm {o} of matrices", with_(ops.norm, o, axis=(0, 1), keepdims=True),
           [distinct(3, 4)], lambda x, o=o: np.linalg.norm(x, o, keepdims=True), terms=12)
      for o in ("fro", 1, -1, np.inf, -np.inf)],
    Case("where with a constant mask", lambda x: ops.where(np.eye(3, dtype=bool), x, 1.0),
         [real(3, 3)], lambda x: np.where(np.eye(3, dtype=bool), x, 1.0)),
    Case("where of booleans", ops.where, [truth(3), truth(3), truth(3)], np.where, gradient=False),
]  # fmt: skip

CASES = [*SHAPING, *SLICING, *INDEXING, *ORDER, *CREATION, *MATRICES]
