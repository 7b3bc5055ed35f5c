"""The remedy for a batch that does not fit: the model runs over it in parts.

Each outermost model is called with one part of its inputs after another; their results are put
together, so that the loss and everything after it see the whole batch once, as written. A part's
activations are not kept but computed again in the backward pass, so that only those of one part
exist at a time. Why so: docs/design/0010-micro-batches.md.

It stays so for the rest of the job: to try the whole batch again would risk the next crash for the
sake of at most a third of the time.
"""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from types import FrameType
from typing import Any, Dict, List, Optional, Tuple

from paramedic.recovery import memory
from paramedic.recovery.crash import Crash, Refused
from paramedic.recovery.random_state import RandomState
from paramedic.recovery.rewind import rewinder
from paramedic.recovery.tensors import Copies

# What wraps a model and has to see one call only.
_WRAPPERS = ("DistributedDataParallel", "DataParallel", "FullyShardedDataParallel")
# How far apart the results for a sample alone and beside another may be, of the largest value.
_TOLERANCE = 1e-4
_HALF_TOLERANCE = 5e-2

_splitters: List["Splitter"] = []


def split(crash: Crash, options: Optional[Dict[str, Any]] = None) -> Tuple[str, int]:
    """From now on models run over half as many samples at a time as before.

    Args:
        crash: the exception for want of memory.
        options: `allow` (a list of `batch_norm`): what may change its result. `parts` gets the
            number of parts in which the batch is run from now on.

    Returns:
        How to go on: "rewind", or "retry" where nothing is trained; and for a retry the project
        frame that had called the model, as an index into the crash's frames.

    Raises:
        Refused: the split would change the result, or there is nothing to split.
    """
    options = {} if options is None else options
    torch: Any = sys.modules.get("torch")
    if not hasattr(torch, "nn"):
        raise Refused("nothing to split: the job does not use PyTorch")
    if not _splitters:
        _splitters.append(Splitter(torch))
    splitter = _splitters[0]
    frames = memory.frames_inside(crash, crash.frames[0].frame if crash.frames else None)
    if any("torch/utils/data/" in frame.f_code.co_filename for frame in frames):
        raise Refused("memory was wanted for loading data: a smaller part for the model is no help")
    at, calls = splitter.first_call(frames)
    caller = _caller(crash, frames[:at])
    del frames
    trains = rewinder().needs_rewind(crash) or any(call[0].training for call in calls)
    if not calls and not trains:
        # A loss, say: the activations that the model keeps for it may be what fills the memory.
        trains = any(model.training for model in rewinder().models())
        if not trains:
            raise Refused("no model was at work: to split its batch would not help")
    if "batch_norm" not in options.get("allow", ()):
        for module in [call[0] for call in calls] or rewinder().models():
            splitter.refuse_coupled(module)
    if trains:
        rewinder().check_exchanged()
    memory.free(crash)
    for module, args, kwargs in calls:
        splitter.prepare(module, args, kwargs)
    splitter.more()
    options["parts"] = splitter.parts
    del calls
    if trains:
        memory.cut(crash, rewinder().sequence)
    return ("rewind", -1) if trains else ("retry", caller)


def _caller(crash: Crash, outside: List[FrameType]) -> int:
    """The innermost project frame that is outside of the model."""
    known = {id(frame) for frame in outside}
    inner = [index for index, one in enumerate(crash.frames) if id(one.frame) in known]
    return inner[-1] if inner else 0


class _Size:
    """How a module is called: how many samples at most, along which dimension."""

    def __init__(self, module: Any, samples: int, dimension: int) -> None:
        self.reference = weakref.ref(module)
        self.whole = samples
        self.dimension = dimension


class _Cannot(Exception):
    """A module that cannot be run in parts; the text says why."""


class Splitter:
    """Takes the place of `Module.__call__` once a batch did not fit."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        # Before torch 2.5 it was known under the name of CUDA only.
        self._out_of_memory = getattr(torch, "OutOfMemoryError", torch.cuda.OutOfMemoryError)
        self._pytree: Any = __import__("torch.utils._pytree", fromlist=["tree_flatten"])
        self._genuine: Any = None
        self.parts = 1
        self._sizes: Dict[int, _Size] = {}
        self._reasons: Dict[int, Tuple["weakref.ref[Any]", str]] = {}
        self._local = threading.local()

    def more(self) -> None:
        """Twice as many parts."""
        largest = max((size.whole for size in self._sizes.values()), default=0)
        if largest and self.parts >= largest:
            raise Refused("even a single sample at a time does not fit into memory")
        if self._reasons and not self._sizes:
            raise Refused(next(reason for _, reason in self._reasons.values()))
        self.parts *= 2
        if self._genuine is None:
            torch = self._torch
            self._genuine = torch.nn.Module.__call__
            genuine, call = self._genuine, self._call

            @functools.wraps(genuine)
            def __call__(module: Any, *args: Any, **kwargs: Any) -> Any:
                return call(module, args, kwargs)

            torch.nn.Module.__call__ = __call__

    def first_call(self, frames: List[FrameType]) -> Tuple[int, List[Tuple[Any, Any, Any]]]:
        """The outermost call of a module with weights: its place, and (module, args, kwargs);
        nothing where there is none."""
        for at, frame in enumerate(frames):
            if frame.f_code.co_name not in ("_wrapped_call_impl", "_call_impl"):
                continue
            names = frame.f_locals
            module = names.get("self")
            if isinstance(module, self._torch.nn.Module) and self._has_weights(module):
                return at, [(module, names.get("args", ()), names.get("kwargs", {}))]
        return len(frames), []

    def refuse_coupled(self, module: Any) -> None:
        """Raises Refused where samples of a batch are looked at together while training."""
        for inner in module.modules():
            batch_norm = isinstance(inner, self._torch.nn.modules.batchnorm._BatchNorm)
            if batch_norm and inner.training:
                raise Refused(
                    f"{type(inner).__name__} normalises over the whole batch: run in parts the "
                    "result would be another one; allow it with allow = ['batch_norm']"
                )

    def prepare(self, module: Any, args: Any, kwargs: Any) -> None:
        """Learns how a module is split; raises Refused where that would change the result."""
        try:
            self._learn(module, args, kwargs)
        except _Cannot as cannot:
            raise Refused(str(cannot)) from None

    def _has_weights(self, module: Any) -> bool:
        return next(module.parameters(), None) is not None

    def _call(self, module: Any, args: Any, kwargs: Any) -> Any:
        local = self._local
        if getattr(local, "inside", False) or type(module).__name__ in _WRAPPERS:
            return self._genuine(module, *args, **kwargs)
        if not self._has_weights(module):
            return self._genuine(module, *args, **kwargs)
        local.inside = True
        try:
            size = self._size(module, args, kwargs)
            if size is not None:
                return self._in_parts(module, size, args, kwargs)
        except _Cannot as cannot:
            self._reasons[id(module)] = (weakref.ref(module), str(cannot))
            self._sizes.pop(id(module), None)
        finally:
            local.inside = False
        local.inside = True
        try:
            return self._genuine(module, *args, **kwargs)
        finally:
            local.inside = False

    def _size(self, module: Any, args: Any, kwargs: Any) -> Optional[_Size]:
        """How to split this call; None where it is to be run whole."""
        cannot = self._reasons.get(id(module))
        if cannot is not None and cannot[0]() is module:
            return None
        size = self._sizes.get(id(module))
        if size is None or size.reference() is not module:
            size = self._learn(module, args, kwargs)
        return size

    def _learn(self, module: Any, args: Any, kwargs: Any) -> _Size:
        flat, spec = self._pytree.tree_flatten((args, kwargs))
        shapes = [value.shape for value in flat if self._is_tensor(value) and value.dim()]
        if not shapes:
            raise _Cannot(f"{type(module).__name__} is called without a batch")
        why = ""
        # Samples lie along the first dimension, or, behind time, along the second.
        for dimension in (0, 1):
            if len(shapes[0]) > dimension and shapes[0][dimension] > 1:
                cannot = self._coupled(module, flat, spec, dimension, shapes[0][dimension])
                why = why or cannot
                if not cannot:
                    size = _Size(module, shapes[0][dimension], dimension)
                    self._sizes[id(module)] = size
                    return size
        raise _Cannot(why or f"{type(module).__name__} is called with a single sample already")

    def _coupled(self, module: Any, flat: Any, spec: Any, dimension: int, samples: int) -> str:
        """Why the results of two samples are not those of each alone; "" when they are."""
        name = type(module).__name__
        modes = [(inner, inner.training) for inner in module.modules()]
        random_state, buffers = RandomState(), Copies()
        buffers.take(list(module.buffers()))
        random_state.keep()
        inside = getattr(self._local, "inside", False)
        self._local.inside = True
        try:
            for inner, _ in modes:
                inner.training = False  # not by eval(), which may do more
            with self._torch.no_grad():
                both, one, two = (
                    self._part(module, flat, spec, dimension, samples, start, count)
                    for start, count in ((0, 2), (0, 1), (1, 1))
                )
                alone = self._together([one, two], [1, 1], dimension, name)
                expected = self._together([both], [2], dimension, name)
                return (
                    ""
                    if self._same(alone, expected)
                    else (
                        f"{name} looks at the samples of a batch together: run in parts its result "
                        "would be another one"
                    )
                )
        except _Cannot as cannot:
            return str(cannot)
        except (MemoryError, self._out_of_memory):
            return f"not even two samples fit through {name}"
        except Exception as error:
            return f"{name} cannot be run on a part of its batch: {type(error).__name__}: {error}"
        finally:
            self._local.inside = inside
            for inner, mode in modes:
                inner.training = mode
            buffers.put_back()
            random_state.put_back()

    def _part(
        self,
        module: Any,
        flat: List[Any],
        spec: Any,
        dimension: int,
        samples: int,
        start: int,
        count: int,
    ) -> Any:
        """Runs the module over some samples, its activations kept only where nothing is trained."""
        part = [
            value.narrow(dimension, start, count)
            if self._is_tensor(value)
            and value.dim() > dimension
            and value.shape[dimension] == samples
            else value
            for value in flat
        ]

        def run(*values: Any) -> Any:
            args, kwargs = self._pytree.tree_unflatten(list(values), spec)
            inside = getattr(self._local, "inside", False)
            self._local.inside = True
            try:
                return (self._genuine or type(module).__call__)(module, *args, **kwargs)
            finally:
                self._local.inside = inside

        if not self._torch.is_grad_enabled():
            return run(*part)
        from torch.utils.checkpoint import checkpoint

        return checkpoint(run, *part, use_reentrant=False)

    def _in_parts(self, module: Any, size: _Size, args: Any, kwargs: Any) -> Any:
        flat, spec = self._pytree.tree_flatten((args, kwargs))
        first = next((v for v in flat if self._is_tensor(v) and v.dim() > size.dimension), None)
        samples = 0 if first is None else first.shape[size.dimension]
        size.whole = max(size.whole, samples)
        count = -(-size.whole // self.parts)
        if samples <= count:
            return self._genuine(module, *args, **kwargs)
        starts = range(0, samples, count)
        counts = [min(count, samples - start) for start in starts]
        results = [
            self._part(module, flat, spec, size.dimension, samples, start, part)
            for start, part in zip(starts, counts)
        ]
        return self._together(results, counts, size.dimension, type(module).__name__)

    def _together(self, results: List[Any], counts: List[int], dimension: int, name: str) -> Any:
        """One result out of those of the parts, in whatever containers they are."""
        flats, specs = zip(*(self._pytree.tree_flatten(result) for result in results))
        if any(spec != specs[0] for spec in specs):
            raise _Cannot(f"{name} answers something else for each part of a batch")
        values = []
        for pieces in zip(*flats):
            if not self._is_tensor(pieces[0]):
                if any(piece is not pieces[0] and piece != pieces[0] for piece in pieces):
                    raise _Cannot(f"{name} answers a {type(pieces[0]).__name__} for each part")
                values.append(pieces[0])
                continue
            for piece, count in zip(pieces, counts):
                if piece.dim() <= dimension or piece.shape[dimension] != count:
                    raise _Cannot(
                        f"{name} answers a tensor of shape {tuple(piece.shape)} for {count} "
                        "samples: it is not known how to put the parts together"
                    )
            values.append(self._torch.cat(pieces, dimension) if len(pieces) > 1 else pieces[0])
        return self._pytree.tree_unflatten(values, specs[0])

    def _same(self, first: Any, second: Any) -> bool:
        pairs = zip(self._pytree.tree_flatten(first)[0], self._pytree.tree_flatten(second)[0])
        for one, other in pairs:
            if not self._is_tensor(one):
                continue
            half = one.dtype in (self._torch.float16, self._torch.bfloat16)
            limit = _HALF_TOLERANCE if half else _TOLERANCE
            largest = float(other.abs().max()) if other.numel() else 0.0
            if one.shape != other.shape or not self._torch.allclose(
                one, other, rtol=0, atol=limit * largest + 1e-12, equal_nan=True
            ):
                return False
        return True

    def _is_tensor(self, value: Any) -> bool:
        return isinstance(value, self._torch.Tensor)
