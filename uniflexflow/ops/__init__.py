"""``uff.ops``: the meaning of each operation.

One file per family. A primitive is a row with a rule for each stage (see
``ir.OpDef``); a composite is a function of others. On a symbolic tensor a function
adds to the graph; on NumPy arrays it runs at once and returns NumPy arrays.
"""

from uniflexflow.ops import chain as _chain  # noqa: F401
from uniflexflow.ops.contraction import *  # noqa: F403
from uniflexflow.ops.convolution import *  # noqa: F403
from uniflexflow.ops.creation import *  # noqa: F403
from uniflexflow.ops.elementwise import *  # noqa: F403
from uniflexflow.ops.indexing import *  # noqa: F403
from uniflexflow.ops.pooling import *  # noqa: F403
from uniflexflow.ops.reduction import *  # noqa: F403
from uniflexflow.ops.scattering import *  # noqa: F403
from uniflexflow.ops.shaping import *  # noqa: F403
from uniflexflow.ops.slicing import *  # noqa: F403
from uniflexflow.ops.sorting import *  # noqa: F403
from uniflexflow.ops.tiling import *  # noqa: F403
from uniflexflow.ops import operators as _operators
