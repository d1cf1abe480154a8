"""How a step is spread over ranks: meshes, layouts, strategies, and who has which rows.

``world()`` is the communicator of all processes; without MPI it has one rank.
"""

from uniflexflow.parallel.rows import batch_rows
from uniflexflow.runtime.comm import world

__all__ = ["batch_rows", "world"]
