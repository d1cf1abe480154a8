"""Models: networks that can be trained."""

from uniflexflow.models.cloning import clone_model
from uniflexflow.models.functional import Functional
from uniflexflow.models.model import Model, model_from_json
from uniflexflow.models.sequential import Sequential
from uniflexflow.saving import load_model, save_model

__all__ = [
    "Functional",
    "Model",
    "Sequential",
    "clone_model",
    "load_model",
    "model_from_json",
    "save_model",
]
