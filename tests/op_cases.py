"""Rows of all operations but convolutions and pooling; see ``op_case``."""

import numpy as np
from op_case import Case, away, distinct, given, real, truth, whole

from uniflexflow import ops

UNARY = [
    Case("negative", ops.negative, [real(3, 4)], np.negative),
    Case("exp", ops.exp, [real(3, 4)], np.exp),
]

CASES = [*UNARY]
