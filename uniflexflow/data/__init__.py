"""Where batches come from.

A *source* gives the global batches of one pass over the data, of which each rank brings
its own rows: arrays and files (``array_source``), or what makes whole batches
(``batch_source``). ``epochs`` cuts passes into epochs. The order of the samples
(``sampler``) depends on a seed and the epoch alone.
"""

from uniflexflow.data.batch import (
    is_batches,
    pack_x_y_sample_weight,
    split_validation,
    unpack_x_y_sample_weight,
)
from uniflexflow.data.epochs import Epochs, make_source
from uniflexflow.data.py_dataset import PyDataset

__all__ = [
    "Epochs",
    "PyDataset",
    "is_batches",
    "make_source",
    "pack_x_y_sample_weight",
    "split_validation",
    "unpack_x_y_sample_weight",
]
