"""The one page that shows the flow: trace -> passes -> plan -> executor.

``Function`` turns a Python function over tensors into plans, one per input
signature, kept in a bounded cache. Everything that computes is one: a training step, an
evaluation step, a layer called on arrays, ``uff.ops.f`` on arrays.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from uniflexflow import machine, tree
from uniflexflow._core import LOWERINGS, takes_bfloat16
from uniflexflow.ir import Graph, TensorSpec, Value, constant, leaf, to_text, verify
from uniflexflow.ops import dispatch
from uniflexflow.ops.dtypes import canonical_dtype, epsilon, floatx
from uniflexflow.ops.variable import Trace, Variable
from uniflexflow.parallel import Strategy, world
from uniflexflow.parallel.distribute import Distributed, distribute, schedule, synchronize
from uniflexflow.parallel.reshard import COLLECTIVES
from uniflexflow.passes import AFTER_SHARDING, BEFORE_SHARDING, FUSION, widen
from uniflexflow.plan import Plan, build
from uniflexflow.runtime import reference
from uniflexflow.runtime.executor import Arena, Executor


class Traced:
    """A function's graph for one signature, and how to get in and out of it.

    Attributes
    ----------
    graph : Graph
    variables : tuple of Variable
        Behind the graph's inputs of kind ``variable``, in their order.
    updated : tuple of Variable
        Behind ``graph.updates``, in their order.
    split : tuple of bool
        Per feed: whether each rank gives its own rows of a global batch (the argument was
        a TensorSpec), or every rank the same array.
    outputs : nested structure
        What the function returned, with ints (places in ``graph.outputs``) for tensors.
    """

    def __init__(self, fn: Callable[..., Any], args: tuple[Any, ...], name: str):
        feeds: list[Value] = []
        split: list[bool] = []

        def stand_in(x: Any) -> Any:
            if not isinstance(x, (np.ndarray, np.generic, TensorSpec)):
                return x
            split.append(isinstance(x, TensorSpec))
            dtype = x.dtype if split[-1] else canonical_dtype(x.dtype)
            feeds.append(leaf(x.shape, dtype, f"{name}:{len(feeds)}"))
            return feeds[-1]

        args = tree.map_structure(stand_in, args)
        results: list[Value] = []
        with Trace() as trace:

            def place(x: Any) -> Any:
                if isinstance(x, Variable):
                    x = trace.read(x)
                elif isinstance(x, (np.ndarray, np.generic)):
                    x = constant(x)
                if not isinstance(x, Value):
                    return _Static(x)
                results.append(x)
                return len(results) - 1

            self.outputs = tree.map_structure(place, fn(*args))
        self.name = name
        self.split = tuple(split)
        self.variables = tuple(trace.reads)
        self.updated = tuple(trace.writes)
        self.graph = Graph(
            inputs=(*feeds, *trace.reads.values()),
            outputs=tuple(results),
            updates=tuple((trace.reads[v], new) for v, new in trace.writes.items()),
        )

    def structure(self, arrays: Sequence[np.ndarray]) -> Any:
        """Put output arrays into the form in which the function returned them."""
        return tree.map_structure(
            lambda x: x.value if isinstance(x, _Static) else arrays[x], self.outputs
        )


class _Static:
    """An output that is not a tensor."""

    def __init__(self, value: Any):
        self.value = value


class Step:
    """One traced function, ready to run.

    Parameters
    ----------
    traced : Traced
    arena : Arena
        Memory for temporary values, shared by the steps of one Function.
    distribution : Strategy, optional
        How the ranks share the step.

    Attributes
    ----------
    graph : Graph
        This rank's, after all passes.
    plan : Plan or None
        None if the reference interpreter runs the graph.
    distributed : Distributed or None
        How the ranks share the step; None if this process does it alone.
    """

    def __init__(self, traced: Traced, arena: Arena, distribution: Strategy | None = None):
        self.traced = traced
        self.distributed: Distributed | None = None
        graph = _run_passes(BEFORE_SHARDING, traced.graph)
        if any(traced.split) and world().size > 1:
            self.distributed = distribute(graph, traced.split, distribution)
            synchronize(traced.variables)  # the same ones everywhere, as is known now
            graph = self.distributed.graph
        plain = _run_passes((*AFTER_SHARDING, _widen), graph)
        graph = _run_passes(FUSION, plain)
        if self.distributed is not None:
            graph = schedule(graph, plain)
        self.graph = graph
        _debug("graph", traced.name, lambda: to_text(graph))
        self._exchange = None if self.distributed is None else self.distributed.exchange
        self.plan: Plan | None = None
        self.constant_bytes = 0  # that the plan holds
        if _executor_name() == "reference":
            self._run = self._run_reference
            return
        in_node = self._exchange is not None and self._exchange.channels.in_node
        self.plan = build(graph, LOWERINGS, COLLECTIVES, exchange=in_node)
        self.constant_bytes = sum(v.spec.nbytes for v in self.plan.constants)
        _debug("plan", traced.name, lambda: str(self.plan))
        self.executor = Executor(
            self.plan,
            [v.array for v in traced.variables],
            arena,
            machine.num_threads(),
            machine.host().scratch_bytes,
            None if self._exchange is None else self._exchange.run,
        )
        self._run = self.executor.run

    def _run_reference(self, feeds: Sequence[np.ndarray]) -> list[np.ndarray]:
        traced = self.traced
        arrays = [*feeds, *[v.array for v in traced.variables]]
        collective = None if self._exchange is None else self._exchange.run
        outputs, updates = reference.run(self.graph, arrays, collective)
        outputs = [np.array(x) for x in outputs]
        updates = [np.array(x) for x in updates]
        for variable, new in zip(traced.updated, updates):
            variable.array[...] = new
        return outputs

    def run_views(self, feeds: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Run on feed arrays; update the variables; return views of the outputs.

        The next run of the same Function overwrites what the views show.
        """
        if self._exchange is not None:
            self._exchange.begin_step()
        return self._run(feeds)

    def run_timed(
        self, feeds: Sequence[np.ndarray], times: np.ndarray, starts: np.ndarray
    ) -> list[np.ndarray]:
        """Run as ``run_views`` does, and time each instruction; see ``Executor.run``.

        Raises
        ------
        RuntimeError
            If the reference interpreter runs the graph.
        """
        if self.plan is None:
            raise RuntimeError(
                "profile: the reference interpreter has no instructions to time; unset "
                "UNIFLEXFLOW_EXECUTOR."
            )
        if self._exchange is not None:
            self._exchange.begin_step()
        return self.executor.run(feeds, times, starts)

    def run(self, feeds: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Run on feed arrays; update the variables; return the output arrays."""
        return [x.copy() for x in self.run_views(feeds)]


def _run_passes(passes: Sequence[Callable[[Graph], Graph]], graph: Graph) -> Graph:
    check = os.environ.get("UNIFLEXFLOW_VERIFY") == "1"
    for run_pass in passes:
        graph = run_pass(graph)
        if check:
            verify(graph)
    return graph


def optimize(graph: Graph) -> Graph:
    """Run the passes that a step of one process goes through."""
    return _run_passes((*BEFORE_SHARDING, *AFTER_SHARDING, _widen, *FUSION), graph)


def _widen(graph: Graph) -> Graph:
    return widen(graph, takes_bfloat16)


def _executor_name() -> str:
    name = os.environ.get("UNIFLEXFLOW_EXECUTOR", "native")
    if name not in ("native", "reference"):
        raise ValueError(
            f"UNIFLEXFLOW_EXECUTOR is {name!r}; expected 'native' (compiled kernels) or "
            "'reference' (NumPy, slow: for checking)."
        )
    return name


def _debug(stage: str, name: str, text: Callable[[], str]) -> None:
    """Print a stage's text form if UNIFLEXFLOW_DEBUG names the stage."""
    if stage in os.environ.get("UNIFLEXFLOW_DEBUG", "").split(","):
        print(f"-- {stage} of {name}\n{text()}", file=sys.stderr)


class Function:
    """A Python function over tensors that runs as plans.

    Parameters
    ----------
    fn : callable
        Takes nested structures; NumPy arrays in them become symbolic tensors, anything
        else is passed as it is and is part of the signature, as are ``floatx()`` and
        ``epsilon()``.
    name : str, optional
    max_steps : int
        How many signatures are kept; the one not used for longest is dropped.
    distribution : Strategy, optional
        How the ranks share steps whose arguments are split; default: data parallel.
    max_bytes : int, optional
        If the plans hold more memory than that after a call, all are dropped.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        name: str | None = None,
        max_steps: int = 32,
        distribution: Strategy | None = None,
        max_bytes: int | None = None,
    ):
        self.fn = fn
        self.distribution = distribution
        self.name = name or getattr(fn, "__name__", "function")
        self.max_steps = max_steps
        self.max_bytes = max_bytes
        self.made = 0  # steps so far
        self._steps: OrderedDict[Any, Step] = OrderedDict()
        self._arena = Arena()
        self._lock = threading.RLock()  # threads that call it take turns: one arena

    def __reduce__(self) -> Any:
        """Return what a copy or a pickle needs: its steps are made anew."""
        return Function, (self.fn, self.name, self.max_steps, self.distribution)

    def step(self, *args: Any) -> tuple[Step, list[np.ndarray]]:
        """Return the Step for these arguments, made if needed, and its feeds.

        A TensorSpec stands for an array of that global shape of which each rank will
        feed its rows, ``parallel.batch_rows``.
        """
        leaves = tree.flatten(args)
        feeds = [_native(x) for x in leaves if isinstance(x, (np.ndarray, np.generic))]
        key = (_form(args), tuple(map(_signature, leaves)), floatx(), epsilon())
        step = self._steps.get(key)
        if step is None:
            traced = Traced(self.fn, args, self.name)
            step = self._steps[key] = Step(traced, self._arena, self.distribution)
            self.made += 1
            if len(self._steps) > self.max_steps:
                self._steps.popitem(last=False)
        else:
            self._steps.move_to_end(key)
        return step, feeds

    def __call__(self, *args: Any) -> Any:
        with self._lock:
            step, feeds = self.step(*args)
            feeds = [_apart(x, step.traced.updated) for x in feeds]
            outputs = step.traced.structure(step.run(feeds))
            if self.max_bytes is not None and self.held_bytes() > self.max_bytes:
                self._steps.clear()
                self._arena = Arena()
            return outputs

    def held_bytes(self) -> int:
        """Return what the plans hold from call to call: temporary values and constants."""
        return self._arena.nbytes + sum(s.constant_bytes for s in self._steps.values())


def _native(x: np.ndarray | np.generic) -> np.ndarray:
    """Return an array in this machine's order of bytes; files may have the other one."""
    return np.asarray(x) if x.dtype.isnative else x.astype(x.dtype.newbyteorder("="))


def _apart(x: np.ndarray, updated: Sequence[Variable]) -> np.ndarray:
    """Return a copy of an array that shows a variable which its step writes to."""
    return x.copy() if any(np.may_share_memory(x, v.array) for v in updated) else x


def _form(structure: Any) -> Any:
    """Return a hashable picture of a nested structure, without its leaves."""
    if isinstance(structure, dict):
        return ("dict", tuple((k, _form(structure[k])) for k in sorted(structure)))
    if isinstance(structure, (list, tuple)):
        return (type(structure).__name__, tuple(map(_form, structure)))
    return None


def _signature(x: Any) -> Any:
    if isinstance(x, (np.ndarray, np.generic)):
        return ("array", x.shape, x.dtype.name)
    if isinstance(x, slice):
        return ("slice", x.start, x.stop, x.step)
    if isinstance(x, float):
        return ("float", x.hex())  # 0.0 and -0.0 are two numbers, a NaN is one
    return (type(x), x)


_eager: OrderedDict[Any, Function] = OrderedDict()
_MAX_EAGER = 256
_MAX_EAGER_BYTES = 1 << 28  # of one operation; making its plan anew then costs little


def run_now(fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Run a function over tensors on arrays, as a plan of its own."""
    function = _eager.get(fn)
    if function is None:
        function = _eager[fn] = Function(
            lambda a, k: fn(*a, **k), fn.__name__, max_steps=64, max_bytes=_MAX_EAGER_BYTES
        )
        if len(_eager) > _MAX_EAGER:
            _eager.popitem(last=False)
    return function(args, kwargs)


dispatch.run_now.append(run_now)
