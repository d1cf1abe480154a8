"""``uff.callbacks``: what is called back during training.

Every callback runs on every rank with the same logs; rank 0 alone prints and writes.
"""

from uniflexflow.callbacks.backup_and_restore import BackupAndRestore
from uniflexflow.callbacks.callback import Callback
from uniflexflow.callbacks.callback_list import CallbackList
from uniflexflow.callbacks.csv_logger import CSVLogger
from uniflexflow.callbacks.early_stopping import EarlyStopping
from uniflexflow.callbacks.history import History
from uniflexflow.callbacks.lambda_callback import LambdaCallback
from uniflexflow.callbacks.learning_rate_scheduler import LearningRateScheduler
from uniflexflow.callbacks.model_checkpoint import ModelCheckpoint
from uniflexflow.callbacks.monitor import MonitorCallback
from uniflexflow.callbacks.profiler import Profiler
from uniflexflow.callbacks.progbar_logger import ProgbarLogger
from uniflexflow.callbacks.reduce_lr_on_plateau import ReduceLROnPlateau
from uniflexflow.callbacks.terminate_on_nan import TerminateOnNaN

__all__ = [
    "BackupAndRestore",
    "CSVLogger",
    "Callback",
    "CallbackList",
    "EarlyStopping",
    "History",
    "LambdaCallback",
    "LearningRateScheduler",
    "ModelCheckpoint",
    "MonitorCallback",
    "Profiler",
    "ProgbarLogger",
    "ReduceLROnPlateau",
    "TerminateOnNaN",
]
