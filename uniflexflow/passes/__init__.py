"""Passes: Graph -> Graph, pure and printable; one file each.

A step goes through ``BEFORE_SHARDING`` with global shapes, then, under MPI, through
``shard``, then through ``AFTER_SHARDING`` with this rank's shapes, through ``widen``, which
must know the kernels, through ``FUSION``, and at last through ``bucket``. ``differentiate`` is
no pass of the pipeline: it is called while a step is traced.
"""

from uniflexflow.passes.fuse import fuse, fuse_epilogues
from uniflexflow.passes.materialize import materialize
from uniflexflow.passes.simplify import simplify
from uniflexflow.passes.widen import widen

__all__ = ["AFTER_SHARDING", "BEFORE_SHARDING", "FUSION", "widen"]

BEFORE_SHARDING = (simplify, materialize)
AFTER_SHARDING = (fuse_epilogues,)
FUSION = (fuse,)
