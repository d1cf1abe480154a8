"""Drawings of models, by pydot and Graphviz."""

from __future__ import annotations

from typing import Any

from uniflexflow.layers.base import Layer
from uniflexflow.ops.symbolic import CallNode


def _pydot() -> Any:
    try:
        import pydot
    except ImportError as error:
        raise ImportError(
            "plot_model needs pydot: install it with `pip install 'uniflexflow[plot]'`; and "
            "Graphviz, from your system's packages."
        ) from error
    return pydot


def model_to_dot(
    model: Any,
    show_shapes: bool = False,
    show_dtype: bool = False,
    show_layer_names: bool = True,
    rankdir: str = "TB",
    dpi: int = 200,
    show_layer_activations: bool = False,
    show_trainable: bool = False,
) -> Any:
    """Return a model as a graph of pydot.

    Parameters
    ----------
    model : Model
        Functional or Sequential, and built.
    show_shapes, show_dtype, show_layer_names, show_layer_activations, show_trainable : bool
    rankdir : {"TB", "LR"}
        From top to bottom, or from left to right.
    dpi : int

    Returns
    -------
    pydot.Dot
    """
    pydot = _pydot()
    if not model.built:
        raise ValueError(
            "This model has not yet been built. Build the model first by calling `build()` or by "
            "calling the model on a batch of data."
        )
    graph = pydot.Dot(graph_type="digraph", rankdir=rankdir, dpi=dpi)
    graph.set_node_defaults(shape="record", fontname="sans-serif")

    def label(layer: Any, output: Any) -> str:
        name, kind = layer.name, type(layer).__name__
        lines = [f"{name} ({kind})" if show_layer_names else kind]
        if show_layer_activations and hasattr(layer, "activation"):
            lines.append(f"Activation: {getattr(layer.activation, '__name__', '')}")
        if show_shapes and output is not None:
            lines.append(f"Output shape: {output.shape}")
        if show_dtype and output is not None:
            lines.append(f"Output dtype: {output.dtype}")
        if show_trainable and isinstance(layer, Layer):
            lines.append(f"Trainable: {layer.trainable}")
        return "{" + "|".join(lines) + "}"

    seen: dict[int, str] = {}

    def draw(tensor: Any) -> str:
        """Draw what makes a tensor, and all before it; return its node's name."""
        node: CallNode | None = tensor.node
        key = id(tensor) if node is None else id(node)
        if key in seen:
            return seen[key]
        seen[key] = name = f"node{len(seen)}"
        if node is None:
            shape = f"|Output shape: {tensor.shape}" if show_shapes else ""
            graph.add_node(pydot.Node(name, label="{" + f"{tensor.name} (Input){shape}" + "}"))
            return name
        graph.add_node(pydot.Node(name, label=label(node.target, tensor)))
        for source in node.inputs:
            graph.add_edge(pydot.Edge(draw(source), name))
        return name

    outputs = getattr(model, "outputs", None)
    if outputs:
        for tensor in outputs:
            draw(tensor)
    else:
        for layer in model.layers:
            graph.add_node(pydot.Node(layer.name, label=label(layer, None)))
    return graph


def plot_model(
    model: Any,
    to_file: str = "model.png",
    show_shapes: bool = False,
    show_dtype: bool = False,
    show_layer_names: bool = True,
    rankdir: str = "TB",
    dpi: int = 200,
    show_layer_activations: bool = False,
    show_trainable: bool = False,
) -> None:
    """Draw a model into a file; its ending says the format. See ``model_to_dot``.

    Parameters
    ----------
    model : Model
    to_file : str or path
        Its ending is the format.
    show_shapes, show_dtype, show_layer_names, rankdir, dpi
        As in ``model_to_dot``.
    show_layer_activations, show_trainable : bool
        As in ``model_to_dot``.

    Raises
    ------
    ImportError
        If pydot or Graphviz is missing.
    """
    graph = model_to_dot(
        model,
        show_shapes,
        show_dtype,
        show_layer_names,
        rankdir,
        dpi,
        show_layer_activations,
        show_trainable,
    )
    to_file = str(to_file)
    _, _, ending = to_file.rpartition(".")
    try:
        graph.write(to_file, format=ending if "." in to_file else "png")
    except OSError as error:
        raise ImportError(
            "plot_model needs Graphviz's `dot`: install Graphviz from your system's packages "
            f"({error})."
        ) from error
