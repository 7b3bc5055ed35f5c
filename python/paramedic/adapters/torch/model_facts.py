"""Tells the facts of a model once a fit: modules, parameters, optimizers, loss, loaders.

Each is an event of kind `model`; `fit` counts the models of a process. Modules come in the order
of their first call, each with the user's line that made it and the line that called it.
"""

from typing import Any, Dict, List, Optional

from paramedic.adapters.common.source import where
from paramedic.adapters.torch.names import Models, Root, walk
from paramedic.adapters.torch.origins import NOWHERE, Origins, Place
from paramedic.adapters.torch.session import Session

MAX_FACTS = 4000  # of modules, and of parameters, of a fit
MAX_FITS = 100  # told in full
_SETTINGS = ("lr", "momentum", "weight_decay", "betas", "eps", "nesterov", "maximize", "fused")


class ModelFacts:
    """Emits `model` and `fit_started` events."""

    def __init__(self, session: Session, models: Models, origins: Origins) -> None:
        self._session = session
        self._models = models
        self._origins = origins
        self._roots_told = 0
        session.on_fork.append(self._reset)

    def begin_fit(self, modules: List[Any], optimizers: List[Any]) -> None:
        """A model that was not there before is trained from now on."""
        self._session.fit += 1
        for callback in self._session.on_fit:
            callback()
        self._roots_told = 0
        self._session.event(
            "fit_started",
            {
                "fit": self._session.fit,
                "models": [type(module).__name__ for module in modules],
                "optimizers": [type(optimizer).__name__ for optimizer in optimizers],
            },
        )

    def tell(self, kind: str, name: str, cls: str, spot: Place, detail: Dict[str, Any]) -> None:
        """Emits one fact."""
        if self._session.fit >= MAX_FITS:
            return
        fact = {"fit": max(0, self._session.fit), "kind": kind, "name": name, "class": cls}
        fact.update(where(spot))
        fact["detail"] = detail
        self._session.event("model", fact)

    def tell_models(self) -> None:
        """Tells the models that were found since; call when the forward order is known."""
        roots = self._models.roots
        for root in roots[self._roots_told :]:
            module = root.reference()
            if module is not None:
                self._tell_model(root, module)
        self._roots_told = len(roots)

    def tell_optimizer(self, label: str, optimizer: Any, step_place: Place) -> None:
        """Tells an optimizer's groups, settings and parameters."""
        groups = []
        for group in optimizer.param_groups:
            settings = {key: _plain(group[key]) for key in _SETTINGS if key in group}
            names = [self._models.parameter(p) for p in group["params"]]
            settings["parameters"] = names[:MAX_FACTS]
            groups.append(settings)
        detail = {"groups": groups, "step": where(step_place)}
        name = type(optimizer).__name__
        self.tell("optimizer", label, name, self._origins.of(optimizer), detail)

    def tell_loader(self, loader: Any, spot: Place) -> None:
        """Tells a DataLoader's settings and where it is iterated."""
        sampler = type(getattr(loader, "sampler", None)).__name__
        iterable = isinstance(loader.dataset, self._session.torch.utils.data.IterableDataset)
        detail = {
            "batch_size": loader.batch_size,
            "workers": loader.num_workers,
            "sampler": sampler,
            "shuffle": sampler == "RandomSampler",
            "drop_last": bool(loader.drop_last),
            # Asking an iterable one for its length makes it warn later on.
            "length": None if iterable else _length(loader),
            "dataset": type(loader.dataset).__name__,
            "dataset_length": _length(loader.dataset),
            "iterated": where(spot),
        }
        made = self._origins.of(loader)
        name = f"{made[0] or spot[0]}:{made[1] or spot[1]}"
        self.tell("loader", name, type(loader).__name__, made if made[1] else spot, detail)

    def _tell_model(self, root: Root, model: Any) -> None:
        modules = list(walk(model))
        if len(modules) > MAX_FACTS:
            self._session.not_captured("facts of all modules", f"{len(modules)} modules")
        order = {id(module): self._order(module) for _, module in modules}
        last = len(order)
        ranked = sorted(modules, key=lambda entry: order.get(id(entry[1])) or (last, 0))
        lines: Dict[str, Place] = {}
        for inner, module in modules:
            parent = inner.rpartition(".")[0]
            made = self._origins.of(module)
            # A copy was never constructed: the line of what holds it is the nearest.
            lines[inner] = made if made[1] else lines.get(parent, NOWHERE)
        for position, (inner, module) in enumerate(ranked[:MAX_FACTS]):
            self._tell_module(root, inner, module, lines[inner], position)
        told = 0
        for inner, module in modules:
            for short, parameter in module._parameters.items():
                if parameter is not None and told < MAX_FACTS:
                    told += 1
                    self._tell_parameter(root, inner, short, parameter, lines[inner])

    def _order(self, module: Any) -> "Optional[tuple[int, int]]":
        call = self._models.calls.get(id(module))
        if call is None or call.reference() is not module:
            return None
        return 0, call.order

    def _tell_module(self, root: Root, inner: str, module: Any, made: Place, at: int) -> None:
        call = self._models.calls.get(id(module))
        cls = type(module)
        detail: Dict[str, Any] = {
            "order": at,
            "called": where(call.place) if call is not None else None,
            "root": not inner,
            "leaf": not module._modules,
            "training": bool(module.training),
            "loaded": self._origins.is_loaded(module),
        }
        if cls.__module__.startswith("torch."):
            # Of torch's own classes only: a user's may do anything.
            detail["settings"] = str(module.extra_repr())[:300]
        self.tell("module", root.name(inner), cls.__name__, made, detail)

    def _tell_parameter(
        self, root: Root, inner: str, short: str, parameter: Any, made: Place
    ) -> None:
        # A tied parameter keeps the name it got first.
        name = self._models.parameter(parameter)
        own = root.name(f"{inner}.{short}" if inner else short)
        detail = {
            "shape": [int(size) for size in getattr(parameter, "shape", ())],
            "dtype": str(parameter.dtype).rpartition(".")[2],
            "requires_grad": bool(parameter.requires_grad),
            "module": root.name(inner),
        }
        if name != own:
            detail["tied_to"] = name
        self.tell("parameter", own, type(parameter).__name__, made, detail)

    def _reset(self) -> None:
        self._roots_told = 0


def _plain(value: Any) -> Any:
    if isinstance(value, (int, float, str, bool)) or value is None:
        return value
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    # A tensor's value may lie on a device; its text would wait for it.
    return type(value).__name__


def _length(thing: Any) -> Optional[int]:
    try:
        return len(thing)
    except Exception:
        # Iterable datasets have none.
        return None
