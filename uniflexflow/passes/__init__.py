"""Passes: Graph -> Graph, pure and printable; one file each.

A step goes through ``BEFORE_SHARDING`` with global shapes, then, under MPI, through
``shard``, then through ``AFTER_SHARDING`` with this rank's shapes, and at last through
``bucket``. ``differentiate`` is no pass of the pipeline: it is called while a step is traced.
"""

from uniflexflow.passes.fuse import fuse
from uniflexflow.passes.materialize import materialize
from uniflexflow.passes.simplify import simplify

BEFORE_SHARDING = (simplify, materialize)
AFTER_SHARDING = (fuse,)
