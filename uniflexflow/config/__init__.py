"""``uff.config``: settings for the whole process."""

from uniflexflow.config.algorithms import convolution_algorithm, set_convolution_algorithm
from uniflexflow.config.limits import (
    max_epochs,
    max_steps_per_epoch,
    set_max_epochs,
    set_max_steps_per_epoch,
)
from uniflexflow.config.names import backend, image_data_format, set_image_data_format
from uniflexflow.dtype_policies import dtype_policy, set_dtype_policy
from uniflexflow.ops.dtypes import epsilon, floatx, set_epsilon, set_floatx
from uniflexflow.training.display import (
    disable_interactive_logging,
    enable_interactive_logging,
    is_interactive_logging_enabled,
)

__all__ = [
    "backend",
    "convolution_algorithm",
    "disable_interactive_logging",
    "dtype_policy",
    "enable_interactive_logging",
    "epsilon",
    "floatx",
    "image_data_format",
    "is_interactive_logging_enabled",
    "max_epochs",
    "max_steps_per_epoch",
    "set_convolution_algorithm",
    "set_dtype_policy",
    "set_epsilon",
    "set_floatx",
    "set_image_data_format",
    "set_max_epochs",
    "set_max_steps_per_epoch",
]
