"""Layer: weights and a computation.

``layer(x)`` acts by what ``x`` is. On the placeholders of a functional model it notes
the call; on the symbolic tensors of a trace it adds to the graph; on NumPy arrays it
runs at once, as one compiled function.

``call.py`` has what happens around ``call``, ``weights.py`` the weights, ``auto_config.py``
how ``get_config`` finds the arguments, ``tracking.py`` how a layer finds its sublayers.
Masks travel beside the symbolic tensors of a trace (``ops.mask``); arrays carry none, so
with arrays a mask is passed as an argument.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from uniflexflow import dtype_policies, naming, regularizers, tree
from uniflexflow.compiler import Function
from uniflexflow.ir import Value, scope
from uniflexflow.layers import auto_config, call, remat
from uniflexflow.layers.input_spec import assert_input_compatibility
from uniflexflow.layers.shapes import as_shape, shape_to_placeholders
from uniflexflow.layers.weights import WeightOwner
from uniflexflow.ops.dtypes import is_float
from uniflexflow.ops.symbolic import CallNode, KerasTensor, compute_output_spec
from uniflexflow.ops.variable import Trace, Variable

#: Sets of layers, and which of them are trainable, that calls on arrays have plans for.
_MAX_FUNCTIONS = 8


def _wrap_build(build: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(build)
    def wrapped(self: Layer, *args: Any, **kwargs: Any) -> None:
        if self.__dict__.get("_in_build"):  # called by a subclass's build
            build(self, *args, **kwargs)
            return
        self._in_build = True
        try:
            with scope(self.name):
                build(self, *args, **kwargs)
        finally:
            self._in_build = False
        self._build_arguments = (args, kwargs)
        self.built = self._locked = True
        if not self.trainable:
            self.trainable = False  # for sublayers made just now

    return wrapped


class Layer(WeightOwner):
    """A computation with weights: the base class of all layers.

    Subclasses make sublayers in ``__init__``, weights in ``build`` with
    ``add_weight``, and compute in ``call``.

    Parameters
    ----------
    activity_regularizer : Regularizer, optional
        Adds a loss on the layer's output, divided by the batch size.
    trainable : bool
    dtype : str or DTypePolicy, optional
        Of the weights and the computation; default ``config.dtype_policy()``. With
        ``"mixed_bfloat16"`` weights are float32 and the computation is in bfloat16.
    autocast : bool
        Whether floating-point inputs, and weights, are cast to the dtype of the computation.
    name : str, optional

    Examples
    --------
    >>> import numpy as np, uniflexflow as uff
    >>> class Scale(uff.Layer):
    ...     def build(self, input_shape):
    ...         self.scale = self.add_weight(shape=input_shape[-1:], initializer="ones")
    ...     def call(self, x):
    ...         return x * self.scale
    >>> Scale()(np.ones((2, 3), "float32")).shape
    (2, 3)
    """

    #: constructor arguments that only give a start, and are no part of the configuration
    _not_in_config: tuple[str, ...] = ()
    #: a model that `remat` may cut into units of its own layers
    _has_cuts = False
    _takes_remat_scope = True
    _remat: remat.RematMode | None = None

    def __new__(cls, *args: Any, **kwargs: Any) -> Layer:
        layer = object.__new__(cls)
        layer._auto_config = auto_config.capture(cls, args, kwargs)
        return layer

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "build" in cls.__dict__ and not hasattr(cls.build, "has_own_scope"):
            cls.build = _wrap_build(cls.build)

    def __init__(
        self,
        *,
        activity_regularizer: Any = None,
        trainable: bool = True,
        dtype: Any = None,
        autocast: bool = True,
        name: str | None = None,
        **kwargs: Any,
    ):
        input_dim = kwargs.pop("input_dim", None)
        input_shape = kwargs.pop("input_shape", None)
        if kwargs:
            raise ValueError(
                f"Unrecognized keyword arguments passed to {type(self).__name__}: {kwargs}"
            )
        #: shape that old scripts give the first layer of a Sequential
        self._first_input_shape = (input_dim,) if input_dim is not None else input_shape
        if name is not None and (not isinstance(name, str) or "/" in name):
            raise ValueError(
                f"{type(self).__name__}: `name` must be a string without '/'; received {name!r}."
            )
        self.name = name or naming.auto_name(type(self).__name__)
        if self._takes_remat_scope:
            self._remat = remat.current_mode(self.name)
        self.activity_regularizer = regularizers.get(activity_regularizer)
        self.autocast = autocast
        self.dtype_policy = dtype
        self.built = False
        self.supports_masking = type(self).compute_mask is not Layer.compute_mask
        self.input_spec: Any = None
        self._trainable = bool(trainable)
        self._in_build = False
        self._calling = 0
        self._locked = False
        self._build_arguments: Any = None
        self._trainable_variables: list[Variable] = []
        self._non_trainable_variables: list[Variable] = []
        self._losses: list[Any] = []
        self._inbound_nodes: list[CallNode] = []
        self._signature = call.Signature(self.call)
        self._functions: dict[Any, tuple[Function, list[Layer]]] = {}

    # -- to be overridden --------------------------------------------------------------

    def build(self, input_shape: Any) -> None:
        """Make the weights for inputs of this shape; by default there are none.

        A layer with several tensor arguments may name its parameters after them, e.g.
        ``build(self, query_shape, value_shape)`` for ``call(self, query, value)``.
        """
        self._build_arguments = ((input_shape,), {})
        self.built = True

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the output; may have the parameters ``training`` and ``mask``."""
        raise NotImplementedError(
            f"Layer '{self.name}' of class {type(self).__name__} has no `call` method."
        )

    def compute_mask(self, inputs: Any, previous_mask: Any) -> Any:
        """Return the mask of the output; by default that of the input."""
        return previous_mask

    # -- calling -----------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if "_functions" not in self.__dict__:
            raise RuntimeError(
                f"Class {type(self).__name__}: call super().__init__() in its constructor "
                "before anything else."
            )
        args = tuple([call.numbers_to_array(a) for a in args])
        symbolic = False
        for x in tree.flatten((args, kwargs)):
            if isinstance(x, KerasTensor):
                return self._call_on_placeholders(args, kwargs)
            symbolic = symbolic or isinstance(x, Value)
        if Trace.current() is not None:
            return self._call_on_values(args, kwargs)
        if symbolic:
            with Trace():
                return self._call_on_values(args, kwargs)
        return self._call_on_arrays(args, kwargs)

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        """Return the arguments of ``call`` by name, and ``training``, wherever it was given."""
        kwargs = dict(kwargs)
        training = None
        if not (self._signature.takes("training") or self._signature.takes_any):
            training = kwargs.pop("training", None)
        if kwargs.get("mask", 0) is None and not self._signature.takes("mask"):
            del kwargs["mask"]
        arguments = self._signature.bind(f"Layer '{self.name}'", args, kwargs)
        return arguments, arguments.get("training", training)

    def _prepare(self, arguments: dict[str, Any]) -> None:
        """Check the inputs against the input_spec, before and after building."""
        inputs = next(iter(arguments.values()), None)
        assert_input_compatibility(self.input_spec, inputs, self.name)
        if not self.built:
            self._build_for(arguments)
            assert_input_compatibility(self.input_spec, inputs, self.name)

    def _build_for(self, arguments: dict[str, Any]) -> None:
        shapes = {
            f"{name}_shape": call.shapes_of(value)
            for name, value in arguments.items()
            if call.holds_tensor(value) and not name.endswith("mask")
        }
        wanted = call.Signature(self.build).names
        if len(wanted) > 1 or (wanted and wanted[0] in shapes):
            self.build(**{n: shapes[n] for n in wanted if n in shapes})
        else:
            self.build(next(iter(shapes.values()), None))

    def _call_on_placeholders(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        arguments, _ = self._bind(args, kwargs)
        self._prepare(arguments)
        outputs = compute_output_spec(self._call_on_values_of, args, kwargs)
        if not any(isinstance(x, KerasTensor) for x in tree.flatten(outputs)):
            raise ValueError(
                f"Layer '{self.name}' of class {type(self).__name__}: `call` must return a tensor, "
                f"or a structure of tensors; it returned {outputs!r}."
            )
        node = CallNode(self, args, kwargs, outputs)
        self._inbound_nodes.append(node)
        return outputs

    def _call_on_values_of(self, *args: Any, **kwargs: Any) -> Any:
        return self._call_on_values(args, kwargs)

    def _call_on_values(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        dtype = self.compute_dtype if self.autocast and is_float(self.compute_dtype) else None
        of_weights = dtype if self.compute_dtype != self.variable_dtype else None
        args, kwargs = call.to_values((args, kwargs), dtype)
        arguments, training = self._bind(args, kwargs)
        outermost = not call.calls.training
        if training is None and not outermost:
            training = call.calls.training[-1]
        if outermost:
            for layer in self._flatten_layers():
                layer._losses.clear()
        call.fill_masks(self._signature, arguments)
        if self._signature.takes("training"):
            arguments["training"] = training
        self._prepare(arguments)
        call.calls.training.append(training)
        try:
            with scope(self.name):
                self._calling += 1
                try:
                    with Trace.autocast(of_weights):
                        if self._remat is None:
                            outputs = self._invoke(arguments)
                        else:
                            outputs = remat.invoke(self, arguments)
                finally:
                    self._calling -= 1
                if self.activity_regularizer is not None:
                    for x in tree.flatten(outputs):
                        if isinstance(x, Value):
                            n = x.shape[0] if x.ndim else 1
                            self.add_loss(self.activity_regularizer(x) * (1.0 / max(n, 1)))
        finally:
            call.calls.training.pop()
        call.pass_masks(self, arguments, outputs)
        return outputs

    def _invoke(self, arguments: dict[str, Any]) -> Any:
        positional, keywords = [], {}
        for p in self._signature.signature.parameters.values():
            if p.name not in arguments:
                continue
            value = arguments[p.name]
            if p.kind is p.VAR_POSITIONAL:
                positional.extend(value)
            elif p.kind is p.VAR_KEYWORD:
                keywords.update(value)
            elif p.kind is p.KEYWORD_ONLY:
                keywords[p.name] = value
            else:
                # by position as long as no parameter before it was left out
                if keywords:
                    keywords[p.name] = value
                elif len(positional) == self._signature.names.index(p.name):
                    positional.append(value)
                else:
                    keywords[p.name] = value
        return self.call(*positional, **keywords)

    def _call_on_arrays(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        args, kwargs = tree.map_structure(
            lambda x: x.array if isinstance(x, Variable) else x, (args, kwargs)
        )
        layers = self._flatten_layers()
        # what a plan of this layer depends on besides its arguments
        key = tuple([(id(layer), layer.trainable, layer._remat) for layer in layers])
        found = self._functions.get(key)
        if found is None:
            this = weakref.ref(self)  # which owns the function

            def run(args: Any, kwargs: Any) -> Any:
                layer = this()
                outputs = layer._call_on_values(args, kwargs)
                return outputs, [x for part in layer._flatten_layers() for x in part._losses]

            if len(self._functions) >= _MAX_FUNCTIONS:
                del self._functions[next(iter(self._functions))]
            # with its layers, so that no other gets the number of one of them
            found = self._functions[key] = Function(run, self.name), layers[1:]
        outputs, losses = found[0](args, kwargs)
        for layer in layers:
            layer._losses.clear()
        self._losses.extend(losses)
        return outputs

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy or a pickle needs: plans are made anew."""
        return {**self.__dict__, "_functions": {}, "_losses": []}

    # -- losses ------------------------------------------------------------------------

    def add_loss(self, loss: Any) -> None:
        """Add a scalar to what training minimises; called in ``call``."""
        for x in tree.flatten(loss):
            if tuple(np.shape(x) if not call.is_tensor(x) else x.shape) != ():
                raise ValueError(
                    f"Layer '{self.name}': add_loss takes scalars; received a tensor of shape "
                    f"{tuple(x.shape)}. Take its mean or sum."
                )
            self._losses.append(x)

    @property
    def losses(self) -> list[Any]:
        """Losses added in the last call, and the weights' regularization losses."""
        tracing = Trace.current() is not None
        found = [
            x
            for layer in self._flatten_layers()
            for x in layer._losses
            if tracing or not isinstance(x, Value)
        ]
        for variable in self.trainable_weights:
            if variable.regularizer is not None:
                found.append(variable.regularizer(variable))
        return found

    # -- dtype, shapes, nodes ----------------------------------------------------------

    @property
    def dtype(self) -> str:
        """Dtype of the weights."""
        return self._dtype_policy.variable_dtype

    @property
    def dtype_policy(self) -> dtype_policies.DTypePolicy:
        """In which dtype weights are kept, and in which is computed."""
        return self._dtype_policy

    @dtype_policy.setter
    def dtype_policy(self, value: Any) -> None:
        try:
            self._dtype_policy = dtype_policies.get(value)
        except (TypeError, ValueError) as error:
            raise ValueError(f"Layer '{self.name}': dtype={value!r}: {error}") from None

    @property
    def compute_dtype(self) -> str:
        """Dtype of the computation."""
        return self._dtype_policy.compute_dtype

    @property
    def variable_dtype(self) -> str:
        """Dtype of the weights."""
        return self._dtype_policy.variable_dtype

    def _dtype_config(self) -> Any:
        """Return the dtype policy for a configuration: a dtype, or a policy in Keras's form."""
        policy = self._dtype_policy
        if policy.name == policy.variable_dtype:
            return policy.name
        return dtype_policies.serialize(policy)

    @property
    def path(self) -> str:
        """Name with those of the layers around it, as its weights show it."""
        weights = self._own_weights()
        return weights[0].path.rsplit("/", 1)[0] if weights else self.name

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        """Return placeholders of the outputs for placeholders of the inputs."""
        arguments, _ = self._bind(args, kwargs)
        self._prepare(arguments)
        return compute_output_spec(self._call_on_values_of, args, kwargs)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Return the shape of the output for an input (or inputs) of this shape."""
        inputs = shape_to_placeholders(input_shape, self.compute_dtype)
        return tree.map_structure(lambda x: x.shape, self.compute_output_spec(inputs))

    def _first_node(self, what: str) -> CallNode:
        if not self._inbound_nodes:
            raise AttributeError(
                f"Layer '{self.name}' has no {what}: it has not been called on the placeholders "
                "of a functional model yet."
            )
        return self._inbound_nodes[0]

    @property
    def input(self) -> Any:
        """Placeholder(s) that the layer was first called on."""
        node = self._first_node("input")
        return node.inputs[0] if len(node.inputs) == 1 else node.args[0]

    @property
    def output(self) -> Any:
        """Placeholder(s) that the layer's first call gave."""
        return self._first_node("output").outputs

    # -- configuration -----------------------------------------------------------------

    def get_config(self) -> dict[str, Any]:
        """Return what ``from_config`` needs to make such a layer, without its weights.

        By default, the constructor's arguments.
        """
        from uniflexflow.saving.serialization import serialize_argument

        config = {"name": self.name, "trainable": self.trainable, "dtype": self._dtype_config()}
        for key, value in auto_config.config_arguments(self).items():
            config[key] = serialize_argument(value)
        return config

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """Make a layer from what ``get_config`` returned."""
        from uniflexflow.saving.serialization import deserialize_arguments

        return auto_config.construct(cls, deserialize_arguments(config))

    def get_build_config(self) -> dict[str, Any] | None:
        """Return the shapes that the layer was built with."""
        if self._build_arguments is None:
            return None
        args, kwargs = self._build_arguments
        names = call.Signature(self.build).names
        shapes = {**dict(zip(names, args)), **kwargs}
        if list(shapes) == ["input_shape"]:
            return shapes
        return {"shapes_dict": shapes}

    def build_from_config(self, config: dict[str, Any] | None) -> None:
        """Build with the shapes of ``get_build_config``."""
        if not config or self.built:
            return
        shapes = config.get("shapes_dict", config)
        if list(shapes) == ["input_shape"]:  # whatever the parameter is called
            self.build(as_shape(shapes["input_shape"]))
        else:
            self.build(**{k: as_shape(v) for k, v in shapes.items()})

    def __repr__(self) -> str:
        return f"<{type(self).__name__} name={self.name}, built={self.built}>"
