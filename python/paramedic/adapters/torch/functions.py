"""Statistics of activations that are functions: `torch.tanh(x)`, `x.sigmoid()`, `F.relu(x)`.

No module is called for them, so no hook sees what they give. On the steps for which activations are
due the graph of the loss is walked before `backward()`, and the nodes of these functions get a hook
that dies with the graph. Its two gradients say how steep the function was at each element, and with
it how far out: a tanh of slope s lies at ±sqrt(1 - s). What the graph saved is never touched (to
unpack it could run a checkpoint again), and nothing of torch or of the job is replaced.

An activation has the name of the layer whose output it takes: `hidden.tanh()`.
"""

import functools
from collections import deque
from time import perf_counter_ns
from typing import Any, Deque, Dict, List, Optional, Set, Tuple

from paramedic import _probe
from paramedic.adapters.torch.activations import Activations
from paramedic.adapters.torch.loss_graph import kind_of
from paramedic.adapters.torch.model_facts import ModelFacts
from paramedic.adapters.torch.names import Models
from paramedic.adapters.torch.origins import Origins
from paramedic.adapters.torch.session import Session

# Nodes of a graph that are looked at, about 1 µs each: those nearest to the loss.
MAX_NODES = 4000
# From an activation back to the parameter of its layer: bias, view, transposed weight.
MAX_NODES_TO_LAYER = 10
MAX_FUNCTIONS = 200  # activations of a step
# Nodes of the graph, and what the module of the same function is called.
_KINDS = {"TanhBackward": "Tanh", "SigmoidBackward": "Sigmoid", "ReluBackward": "ReLU"}


class Functions:
    """Hooks on the nodes of a graph that is about to be walked backwards."""

    def __init__(
        self,
        session: Session,
        models: Models,
        origins: Origins,
        facts: ModelFacts,
        activations: Activations,
    ) -> None:
        self._session = session
        self._models = models
        self._origins = origins
        self._facts = facts
        self._activations = activations
        self._tap = session.tap("activations that are functions")
        # Names by the name of a layer's parameter, of one fit; "" is no layer of ours.
        self._layers: Dict[str, str] = {}
        self._told: Set[str] = set()
        # (name, kind, layer) that are to be told once the modules are.
        self._new: List[Tuple[str, str, str]] = []
        self._fit = -1
        self._looked = -1
        session.on_fork.append(self._reset)

    def look(self, line: Any, tensors: Any, first: bool) -> None:
        """Walks the graph of a loss; the first one of a step for which activations are due."""
        session = self._session
        if not session.due & _probe.DUE_ACTIVATION or self._looked == session.step:
            return
        if not self._tap.on or session.compiled or not isinstance(tensors, session.torch.Tensor):
            return
        self._looked = session.step
        try:
            self._walk(tensors.grad_fn)
        except Exception as error:
            self._tap.fail(error)

    def before_update(self, stepper: Any, optimizer: Any) -> None:
        """Tells the activations that are new; the modules of their layers were told before."""
        if not self._new:
            return
        for name, kind, layer in self._new:
            made = self._origins.of(self._module(layer))
            self._facts.tell("function", name, kind, made, {"layer": layer})
        self._new = []

    def _walk(self, start: Any) -> None:
        queue: Deque[Any] = deque([start])
        seen = {start}
        names: Set[str] = set()
        of_modules = self._activations.nodes
        while queue and len(seen) < MAX_NODES and len(names) < MAX_FUNCTIONS:
            node = queue.popleft()
            if node is None:
                continue
            kind = _KINDS.get(kind_of(node))
            if kind is not None and node._sequence_nr() not in of_modules:
                name = self._name(node, kind)
                # Of a layer that is used in each turn of a loop the last one is taken.
                if name and name not in names:
                    names.add(name)
                    measure = functools.partial(self._measure, name, kind, self._session.step)
                    node.register_hook(measure)
            for following, _ in node.next_functions:
                if following is not None and following not in seen:
                    seen.add(following)
                    queue.append(following)

    def _name(self, node: Any, kind: str) -> str:
        layer = self._layer(node)
        if not layer:
            return ""
        name = f"{layer}.{kind.lower()}()"
        if name not in self._told:
            self._told.add(name)
            self._new.append((name, kind, layer))
        return name

    def _layer(self, node: Any) -> str:
        """The module of torch's own whose parameter is nearest behind a node; "" is none."""
        if self._fit != self._session.fit:
            self._fit = self._session.fit
            self._layers, self._told, self._new = {}, set(), []
        queue: Deque[Any] = deque(following for following, _ in node.next_functions)
        for _ in range(MAX_NODES_TO_LAYER):
            if not queue:
                return ""
            behind = queue.popleft()
            if behind is None or kind_of(behind) in _KINDS:
                continue
            parameter = getattr(behind, "variable", None)
            if parameter is not None and self._models.knows(parameter):
                return self._owner(self._models.parameter(parameter))
            queue.extend(following for following, _ in behind.next_functions)
        return ""

    def _owner(self, parameter: str) -> str:
        layer = self._layers.get(parameter)
        if layer is None:
            layer = parameter.rpartition(".")[0]
            module = self._module(layer) if layer else None
            # Where a parameter hangs on a module of the user's, its place in the forward pass is
            # not known.
            if module is None or module._modules or not _is_torchs(module):
                layer = ""
            self._layers[parameter] = layer
        return layer

    def _module(self, name: str) -> Optional[Any]:
        for root in self._models.roots:
            model = root.reference()
            inner = name
            if root.prefix:
                if not name.startswith(root.prefix + "."):
                    continue
                inner = name[len(root.prefix) + 1 :]
            for part in inner.split("."):
                model = None if model is None else model._modules.get(part)
            if model is not None:
                return model
        return None

    def _measure(self, name: str, kind: str, step: int, inputs: Any, outputs: Any) -> None:
        """The hook: gradients of what went into the function, and of what it gave."""
        session = self._session
        if not self._tap.on or session.step != step or not session.active():
            return
        start = perf_counter_ns()
        try:
            below, above = inputs[0], outputs[0]
            if below is not None and above is not None and below.is_cpu and not below.is_sparse:
                with session.torch.no_grad():
                    self._activations.record(name, kind, _values(below, above, kind))
        except Exception as error:
            self._tap.fail(error)
        session.spent_ns += perf_counter_ns() - start

    def _reset(self) -> None:
        self._layers, self._told, self._new = {}, set(), []
        self._fit = self._looked = -1


def _is_torchs(module: Any) -> bool:
    return type(module).__module__.startswith("torch.nn.modules.")


def _values(below: Any, above: Any, kind: str) -> Any:
    """What the function gave, up to its sign, from its slope. Where no gradient came from above the
    slope is not known: there it counts as moving."""
    slope = (below.detach().float() / above.detach().float()).abs_()
    if kind == "ReLU":
        return slope.nan_to_num_(1.0, 1.0, 1.0)
    if kind == "Tanh":
        return slope.neg_().add_(1.0).clamp_(min=0.0).sqrt_().nan_to_num_(0.0, 0.0, 0.0)
    # y (1 - y) = s; the larger of the two solutions.
    slope = slope.mul_(-4.0).add_(1.0).clamp_(min=0.0).sqrt_()
    return slope.add_(1.0).mul_(0.5).nan_to_num_(0.5, 0.5, 0.5)
