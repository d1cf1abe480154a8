"""How a step is spread over ranks: meshes, layouts, strategies, and who has which rows.

``world()`` is the communicator of all processes; without MPI it has one rank. A graph
becomes a rank's own in ``parallel.distribute``, which the compiler calls.
"""

from uniflexflow.parallel.layout import Partial, Replicate, Split
from uniflexflow.parallel.mesh import Mesh
from uniflexflow.parallel.rows import batch_rows
from uniflexflow.parallel.strategy import Choice, DataParallel, Strategy
from uniflexflow.runtime.comm import world

__all__ = [
    "Choice",
    "DataParallel",
    "Mesh",
    "Partial",
    "Replicate",
    "Split",
    "Strategy",
    "batch_rows",
    "world",
]
