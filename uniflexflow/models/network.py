"""Network: the calls between input and output placeholders, in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from uniflexflow import tree
from uniflexflow.ir import region
from uniflexflow.layers.input_layer import InputLayer
from uniflexflow.ops.symbolic import CallNode, KerasTensor


class Network:
    """Calls that lead from inputs to outputs.

    Parameters
    ----------
    inputs, outputs : lists of KerasTensor
    replaced : dict of KerasTensor to InputLayer
        Inputs in the middle of a larger network, and the layers that stand for them.

    Attributes
    ----------
    calls : list of CallNode
        In an order in which they can be run; without those of input layers.
    targets : list
        Layers and operations, each once, input layers included, in Keras's order: by
        depth (the longest way to an output), the farthest first, then as first seen
        on the way back from the outputs. The numbers in weight files rest on it.
    """

    def __init__(
        self,
        inputs: list[KerasTensor],
        outputs: list[KerasTensor],
        replaced: dict[KerasTensor, InputLayer],
    ):
        self.inputs = inputs
        self.replaced = replaced
        self._is_input = set(inputs)
        self.calls = self._collect(outputs)
        self._order(outputs)

    def _collect(self, outputs: list[KerasTensor]) -> list[CallNode]:
        """Walk back depth first, inputs before the calls that use them; no recursion."""
        done: dict[int, CallNode] = {}
        open_calls: set[int] = set()
        self._seen: dict[int, int] = {}  # target -> order of first sight
        self._input_targets: list[Any] = []
        for output in outputs:
            stack: list[tuple[KerasTensor, bool]] = [(output, False)]
            while stack:
                tensor, expanded = stack.pop()
                if tensor in self._is_input:
                    self._see(self._input_layer(tensor))
                    continue
                node = tensor.node
                if node is None or isinstance(node.target, InputLayer):
                    raise ValueError(
                        f"A model's output depends on the placeholder {tensor!r}, which is not "
                        "among its inputs. Add it to `inputs`."
                    )
                if id(node) in done:
                    continue
                if expanded:
                    done[id(node)] = node
                    open_calls.discard(id(node))
                    continue
                if id(node) in open_calls:
                    raise ValueError(f"The network has a cycle at {tensor!r}.")
                open_calls.add(id(node))
                self._see(node.target)
                stack.append((tensor, True))
                stack.extend([(x, False) for x in reversed(node.inputs)])
        return list(done.values())

    def _see(self, target: Any) -> None:
        self._seen.setdefault(id(target), len(self._seen))

    def _input_layer(self, tensor: KerasTensor) -> InputLayer:
        return self.replaced[tensor] if tensor in self.replaced else tensor.node.target

    def maker(self, tensor: KerasTensor) -> Any:
        """Return the layer or operation that gives a placeholder."""
        return self._input_layer(tensor) if tensor in self._is_input else tensor.node.target

    def _order(self, outputs: list[KerasTensor]) -> None:
        depth: dict[int, int] = {}  # call -> longest way to an output
        target_depth: dict[int, int] = {}
        targets: dict[int, Any] = {}
        for node in reversed(self.calls):
            d = max(depth.get(id(node), 0), target_depth.get(id(node.target), 0))
            depth[id(node)] = d
            target_depth[id(node.target)] = d
            targets[id(node.target)] = node.target
            for x in node.inputs:
                if x in self._is_input:
                    layer = self._input_layer(x)
                    targets[id(layer)] = layer
                    target_depth[id(layer)] = max(target_depth.get(id(layer), 0), d + 1)
                else:
                    depth[id(x.node)] = max(depth.get(id(x.node), 0), d + 1)
        for x in self.inputs:
            layer = self._input_layer(x)
            targets.setdefault(id(layer), layer)
            target_depth.setdefault(id(layer), 0)
            self._seen.setdefault(id(layer), len(self._seen))
        self.call_depth = depth
        self.targets = [
            targets[i] for i in sorted(targets, key=lambda i: (-target_depth[i], self._seen[i]))
        ]
        self.calls_of: dict[int, list[CallNode]] = {}
        for node in self.calls:
            self.calls_of.setdefault(id(node.target), []).append(node)
        for nodes in self.calls_of.values():
            # in the order in which the layer was called
            every = getattr(nodes[0].target, "_inbound_nodes", nodes)
            place = {id(n): i for i, n in enumerate(every)}
            nodes.sort(key=lambda n: place.get(id(n), 0))

    def run(self, values: dict[KerasTensor, Any], cuts: Sequence[int] = ()) -> None:
        """Run the calls.

        Parameters
        ----------
        values : dict
            Has the inputs and gets all others.
        cuts : sequence of int
            How many calls lie before each cut. What lies before one is computed again for
            its gradient; what comes last is not: its gradient comes next.
        """
        start = 0
        for stop in cuts:
            with region():
                self._run(self.calls[start:stop], values)
            start = stop
        self._run(self.calls[start:], values)

    @staticmethod
    def _run(calls: Sequence[CallNode], values: dict[KerasTensor, Any]) -> None:

        def fill(x: Any) -> Any:
            return values[x] if isinstance(x, KerasTensor) else x

        for node in calls:
            args = tree.map_structure(fill, node.args)
            kwargs = tree.map_structure(fill, node.kwargs)
            results = node.target(*args, **kwargs)
            for placeholder, value in zip(tree.flatten(node.outputs), tree.flatten(results)):
                if isinstance(placeholder, KerasTensor):
                    values[placeholder] = value
