"""The table that ``model.summary()`` prints."""

from __future__ import annotations

import math
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from uniflexflow import tree
from uniflexflow.layers.base import Layer
from uniflexflow.ops.symbolic import KerasTensor
from uniflexflow.parallel import world
from uniflexflow.runtime.launch import is_terminal


def readable_size(nbytes: float) -> str:
    """Return a number of bytes in a unit that suits it.

    Examples
    --------
    >>> readable_size(260), readable_size(3 * 1024**2)
    ('260.00 B', '3.00 MB')
    """
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if nbytes < 1024:
            return f"{nbytes:.2f} {unit}"
        nbytes /= 1024
    return f"{nbytes:.2f} PB"


def _number(x: Any) -> str:
    return f"[color({45 if x is None else 34})]{x}[/]"


def _shape(shape: Sequence[int | None]) -> str:
    return f"({', '.join(_number(n) for n in shape)})"


def output_shapes(layer: Any) -> str:
    """Return the shape(s) of a layer's output, or ``?`` if it is not known."""
    nodes = getattr(layer, "_inbound_nodes", None)
    if nodes:
        outputs = nodes[-1].outputs
    elif getattr(layer, "outputs", None) is not None:
        outputs = layer.outputs if len(layer.outputs) > 1 else layer.outputs[0]
    else:
        outputs = _traced_outputs(layer)
    if outputs is None:
        return "?"
    shapes = [_shape(x.shape) for x in tree.flatten(outputs) if isinstance(x, KerasTensor)]
    if len(shapes) == 1:
        return shapes[0]
    return f"[{', '.join(shapes)}]" if shapes else "?"


def _traced_outputs(layer: Any) -> Any:
    """Return the outputs for the shapes that a layer was built with; None if that fails."""
    arguments = getattr(layer, "_build_arguments", None)
    if not arguments or not getattr(layer, "built", False):
        return None
    from uniflexflow.layers.shapes import shape_to_placeholders

    args, kwargs = arguments
    shapes = [s for s in (*args, *kwargs.values()) if s is not None]
    if len(shapes) != 1:
        return None
    try:
        return layer.compute_output_spec(shape_to_placeholders(shapes[0], layer.compute_dtype))
    except (TypeError, ValueError, AttributeError):
        return None  # it takes other arguments than its shape tells


def _connections(layer: Any, model: Any) -> str:
    network = model._network
    names = [
        f"{network.maker(x).name}[{_number(_node_number(x, network))}][{_number(x.index)}]"
        for node in network.calls_of.get(id(layer), [])
        for x in node.inputs
    ]
    return ", ".join(names) or "-"


def _node_number(x: KerasTensor, network: Any) -> int:
    nodes = network.calls_of.get(id(x.node.target), []) if x.node is not None else []
    return next((i for i, n in enumerate(nodes) if n is x.node), 0)


def _is_chain(model: Any) -> bool:
    network = getattr(model, "_network", None)
    if network is None:
        return True
    shared = any(len(nodes) > 1 for nodes in network.calls_of.values())
    branches = any(len(node.inputs) > 1 for node in network.calls)
    return not shared and not branches and len(network.calls) + 1 == len(network.targets)


def _range(layers: list[Any], layer_range: Sequence[str] | None) -> list[Any]:
    if layer_range is None:
        return layers
    if len(layer_range) != 2 or not all(isinstance(n, str) for n in layer_range):
        raise ValueError(
            "summary: layer_range must be two layer names, the first and the last; received "
            f"{layer_range!r}."
        )
    first = [i for i, x in enumerate(layers) if re.match(layer_range[0], x.name)]
    last = [i for i, x in enumerate(layers) if re.match(layer_range[1], x.name)]
    if not first or not last:
        raise ValueError(
            f"summary: layer_range={tuple(layer_range)!r} names layers that the model does not "
            f"have; it has {[x.name for x in layers]}."
        )
    low, high = sorted((min(first), max(last)))
    return layers[low : high + 1]


def _rows(
    layers: Iterable[Any], expand: bool, fields: Callable[[Any, str], list[str]], level: int = 0
) -> list[list[str]]:
    rows = []
    for layer in layers:
        rows.append(fields(layer, "   " * level + "└ " if level else ""))
        inner = getattr(layer, "layers", None)
        if expand and inner:
            rows.extend(_rows(inner, expand, fields, level + 1))
    return rows


def _counted(title: str, variables: Iterable[Any]) -> str:
    variables = list({id(v): v for v in variables}.values())
    count = sum(math.prod(v.shape) for v in variables)
    size = readable_size(sum(v.nbytes for v in variables))
    return f"[bold] {title}: [/]{_number(f'{count:,}')} ({size})"


def print_summary(
    model: Any,
    line_length: int | None = None,
    positions: Sequence[float] | None = None,
    print_fn: Callable[[str], Any] | None = None,
    expand_nested: bool = False,
    show_trainable: bool = False,
    layer_range: Sequence[str] | None = None,
) -> None:
    """Print a model's table; see ``Model.summary``."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Column, Table

    network = getattr(model, "_network", None)
    layers = network.targets if network is not None else model.layers
    chain = _is_chain(model)
    if chain:
        header = [("Layer (type)", "left"), ("Output Shape", "left"), ("Param #", "right")]
        width, ends = 88, list(positions or (0.45, 0.80, 1.0))
    else:
        header = [
            ("Layer (type)", "left"),
            ("Output Shape", "left"),
            ("Param #", "right"),
            ("Connected to", "left"),
        ]
        width, ends = 108, list(positions or (0.3, 0.56, 0.74, 1.0))
    if show_trainable:
        header.append(("Trainable", "center"))
        width += 12
        ends = [p * 0.90 for p in ends] + [1.0]
    if line_length is None:
        terminal = shutil.get_terminal_size().columns - 4
        line_length = min(width, terminal) if is_terminal(sys.stdout) else width
    if len(ends) != len(header):
        raise ValueError(f"summary: expected {len(header)} `positions`; received {len(ends)}.")
    scale = line_length if ends[-1] <= 1 else 1
    marks = [0, *[int(p * scale) for p in ends]]
    widths = [b - a for a, b in zip(marks, marks[1:])]
    if min(widths) < 4:
        raise ValueError(
            f"summary: line_length={line_length} is too narrow for {len(header)} columns at "
            f"positions {ends}."
        )
    table = Table(
        *[Column(n, justify=j, width=w) for (n, j), w in zip(header, widths)],
        width=line_length,
        show_lines=True,
    )

    def fields(layer: Any, prefix: str) -> list[str]:
        name = f"{escape(prefix + layer.name)} ([color(33)]{escape(_class_name(layer))}[/])"
        if not isinstance(layer, Layer):
            params = _number(0)
        elif not layer.built:
            params = f"{_number(0)} (unbuilt)"
        else:
            params = _number(f"{layer.count_params():,}")
        row = [name, output_shapes_of(layer, network), params]
        if not chain:
            row.append(_connections(layer, model))
        if show_trainable:
            if isinstance(layer, Layer) and layer.weights:
                good = layer.trainable
                row.append("[bold color(34)]Y[/]" if good else "[bold color(9)]N[/]")
            else:
                row.append("[bold]-[/]")
        return row

    for row in _rows(_range(list(layers), layer_range), expand_nested, fields):
        table.add_row(*row)

    optimizer = getattr(model, "optimizer", None)
    slots = list(optimizer.variables) if getattr(optimizer, "built", False) else []
    trainable, others = model.trainable_weights, model.non_trainable_weights
    lines = [
        f'[bold]Model: "{escape(model.name)}"[/]',
        table,
        _counted("Total params", [*trainable, *others, *slots]),
        _counted("Trainable params", trainable),
        _counted("Non-trainable params", others),
    ]
    if slots:
        lines.append(_counted("Optimizer params", slots))
    if print_fn is None:
        if world().rank != 0:
            return
        # as wide as asked for, also where the output is no terminal
        live = is_terminal(sys.stdout)
        console = Console(
            highlight=False,
            width=None if live else line_length,
            force_terminal=None if live else False,
        )
        if console.width < line_length:
            console.width = line_length
        for line in lines:
            console.print(line)
        return
    console = Console(highlight=False, force_terminal=False, color_system=None, width=line_length)
    with console.capture() as capture:
        for line in lines:
            console.print(line)
    print_fn(capture.get())


def _class_name(layer: Any) -> str:
    return type(layer).__name__ if isinstance(layer, Layer) else _camel(layer.fn.__name__)


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def output_shapes_of(layer: Any, network: Any) -> str:
    """Return a layer's output shapes; an operation's from its call in the network."""
    if network is not None and not isinstance(layer, Layer):
        node = network.calls_of[id(layer)][-1]
        shapes = [_shape(x.shape) for x in tree.flatten(node.outputs)]
        return shapes[0] if len(shapes) == 1 else f"[{', '.join(shapes)}]"
    return output_shapes(layer)
