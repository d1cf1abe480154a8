"""LayerCase: one row of the table of layers."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class LayerCase:
    """One row.

    Attributes
    ----------
    layer : Layer class
    kwargs : dict
        Of its constructor.
    shapes : list of tuple
        Of its inputs, with the batch; several go in as one list.
    output : tuple, or list of tuple
    num_weights : int
    full : dict or None
        Constructor arguments, none at its default; None: there are none.
    full_shapes : list of tuple, optional
        Inputs for ``full``, if not ``shapes``.
    call : dict
        More arguments of the call.
    as_list : bool
        Whether the inputs are one argument, a list.
    integers : int
        If positive, inputs are integers below it.
    training : bool
        Whether gradients and Keras are compared in training.
    random : bool
        Whether training draws random numbers.
    in_keras : bool
        Whether Keras has the same layer for the comparison.
    """

    layer: type
    kwargs: dict = field(default_factory=dict)
    shapes: list = field(default_factory=lambda: [(3, 4)])
    output: Any = None
    num_weights: int = 0
    full: Any = None
    full_shapes: Any = None
    call: dict = field(default_factory=dict)
    as_list: bool = False
    integers: int = 0
    training: bool = False
    random: bool = False
    in_keras: bool = True
    note: str = ""

    @property
    def name(self):
        parts = [self.layer.__name__, self.note]
        return "-".join(p for p in parts if p)
