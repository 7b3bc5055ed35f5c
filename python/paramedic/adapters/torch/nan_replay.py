"""Repeats an iteration in a forked child and finds the operation that made the first NaN or Inf.

From the frame of the alarm outwards the bodies of the loops around the line, then of the function,
are compiled again from the file, as one turn of a loop, and run with the frame's variables. A
dispatch mode looks at the result of every operation; from the loss (or the gradient) the chain of
non-finite values is walked back to the operation whose operands were finite.
"""

import ast
import contextlib
import itertools
import linecache
import math
import re
import sys
from time import process_time
from types import FrameType
from typing import Any, Callable, Dict, Iterator, List, Optional, Set, Tuple

from paramedic.adapters.common.source import Source, place, where
from paramedic.adapters.torch.nan_data import Data
from paramedic.adapters.torch.nan_region import bind, bound, compile_region, regions

MAX_REGIONS = 8
# Of a loop that is gone over from its start.
MAX_TURNS = 500
TURNS_S = 4  # of processor time
MAX_RECORDS = 20_000
# They write infinities on purpose where their own argument is one.
_FILLS = ("full", "fill", "masked_fill", "where", "scalar_tensor", "zeros", "ones", "empty")
# A row that is masked as a whole is lost here, whatever the mask holds.
_NORMALISE = ("softmax", "logsumexp", "attention")
# They do not read what they overwrite.
_OVERWRITES = ("copy_", "fill_", "zero_", "normal_", "uniform_")


class _Stop(BaseException):
    """The alarm was reached again."""


class _Record:
    """An operation whose result is not finite."""

    __slots__ = (
        "index", "inputs", "modules", "operation", "outputs", "ranges", "spot", "text", "wilful",
    )  # fmt: skip

    def __init__(self, index: int, operation: str) -> None:
        self.index = index
        self.operation = operation
        # Records that made the operands, and operands without a maker.
        self.inputs: List[Any] = []
        self.outputs: List[Any] = []
        self.ranges: List[str] = []
        self.spot: Tuple[str, int, str] = ("", 0, "")
        self.text = ""
        self.modules: List[str] = []
        self.wilful = False


class Replay:
    """One search; lives in the child only."""

    def __init__(
        self,
        torch: Any,
        source: Source,
        models: Any,
        random_state: Any,
        genuine_backward: Callable[..., Any],
    ) -> None:
        self._torch = torch
        self._source = source
        self._models = models
        self._random_state = random_state
        # Called before each try.
        self.prepare: Callable[[], None] = lambda: None
        self._records: List[_Record] = []
        self._makers: Dict[int, _Record] = {}
        self._forward: Dict[int, Tuple[Tuple[str, int, str], str, List[str]]] = {}
        self._reached: List[Any] = []
        self._quiet = False
        self._function = ""
        self._code_file = ""
        self._genuine_backward = genuine_backward

    def search(self, alarm: str, frame: FrameType, optimizers: List[Any]) -> Dict[str, Any]:
        """The answer as the event's fields; empty when nothing was found."""
        current: Optional[FrameType] = frame
        tries = 0
        while current is not None and tries < MAX_REGIONS:
            if self._source.is_user(current.f_code):
                for owner, statements in regions(current):
                    tries += 1
                    self._reached = []
                    self._try(alarm, current, statements, optimizers)
                    answer = self._judge(owner, statements, current)
                    if answer:
                        return answer
            current = current.f_back
        return {}

    def search_turns(self, frame: FrameType, optimizers: List[Any]) -> Dict[str, Any]:
        """Goes over the turns of the loop around the alarm, from its first one: in one of them a
        gradient that is not finite spoiled some weights, which were replaced."""
        end = process_time() + TURNS_S
        for owner, _ in regions(frame):
            if not isinstance(owner, ast.For):
                continue
            # The update lies behind the line of the alarm.
            statements = owner.body
            values = {**frame.f_globals, **frame.f_locals}
            code = compile(ast.Expression(owner.iter), frame.f_code.co_filename, "eval")
            self.prepare = lambda: None
            for value in itertools.islice(eval(code, values), MAX_TURNS):
                if process_time() > end:
                    return {}
                self._reached = []
                given = (owner.target, value)
                self._try("gradient", frame, statements, optimizers, given)
                answer = self._judge(owner, statements, frame) if self._reached else {}
                if answer:
                    return answer
            return {}
        return {}

    def _try(
        self,
        alarm: str,
        frame: FrameType,
        statements: List[ast.stmt],
        optimizers: List[Any],
        given: Optional[Tuple[ast.expr, Any]] = None,
    ) -> None:
        """Runs the statements until the alarm comes again, and notes the bad tensors there."""
        code = compile_region(statements, frame.f_code.co_filename)
        if code is None:
            return
        self._records, self._makers, self._forward = [], {}, {}
        self._function = frame.f_code.co_name
        self._code_file = frame.f_code.co_filename
        self.prepare()
        if self._random_state is not None:
            self._torch.set_rng_state(self._random_state)
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    parameter.grad = None
        variables = dict(frame.f_globals)
        variables.update(frame.f_locals)
        if given is not None:
            # What the loop's own variables are in this turn.
            variables["_paramedic_value"] = given[1]
            exec(bind(given[0]), variables)
        self._intercept(alarm)
        try:
            with _recorder(self._torch, self._look):
                exec(code, variables)
        except (_Stop, Exception):
            # An error of the repetition is no answer; the next region may have one.
            return

    def _intercept(self, alarm: str) -> None:
        """Stops the repetition where the alarm was, and notes the tensors that are not finite."""
        torch, reached = self._torch, self._reached
        genuine = self._genuine_backward

        def backward(tensors: Any, *args: Any, **kwargs: Any) -> None:
            several = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
            with self._unseen():
                bad = [tensor for tensor in several if not self._finite(tensor)]
            if bad:
                reached.extend(bad)
                raise _Stop
            genuine(tensors, *args, **kwargs)

        def before_step(optimizer: Any, args: Any, kwargs: Any) -> None:
            with self._unseen():
                for group in optimizer.param_groups:
                    for parameter in group["params"]:
                        gradient = parameter.grad
                        if gradient is not None and not self._finite(gradient):
                            reached.append(gradient)
            raise _Stop

        torch.autograd.backward = backward
        hooks = sys.modules["torch.optim.optimizer"]._global_optimizer_pre_hooks
        hooks.clear()
        if alarm == "gradient":
            hooks["replay"] = before_step

    @contextlib.contextmanager
    def _unseen(self) -> Iterator[None]:
        """Our own operations are not recorded."""
        self._quiet = True
        try:
            yield
        finally:
            self._quiet = False

    def _finite(self, tensor: Any) -> bool:
        if not (tensor.is_floating_point() or tensor.is_complex()) or tensor.is_sparse:
            return True
        return bool(self._torch.isfinite(tensor.detach()).all().item())

    def _look(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        """Called with every operation and its result; modes are off meanwhile."""
        if self._quiet:
            return
        name = func._schema.name.rpartition("::")[2]
        node = self._torch._C._current_autograd_node()
        site: Optional[Tuple[Tuple[str, int, str], str, List[str]]] = None
        if node is None:
            site = self._site()
            self._forward[self._torch.autograd._get_sequence_nr() - 1] = site
        operands = list(_tensors(args)) + list(_tensors(kwargs))
        results = list(_tensors(result))
        mutable = bool(func._schema.is_mutable)
        before = {_key(operand): self._makers.get(_key(operand)) for operand in operands}
        if not mutable:
            # A view is no result: who made its storage made its values.
            results = [tensor for tensor in results if _key(tensor) not in before]
        for tensor in results:
            self._makers.pop(_key(tensor), None)
        outputs = [tensor for tensor in results if not self._finite(tensor)]
        if not outputs or len(self._records) >= MAX_RECORDS:
            return
        record = _Record(len(self._records), name)
        if name in _OVERWRITES:
            operands = operands[1:]
        for operand in operands:
            maker = before[_key(operand)]
            if mutable and any(_key(operand) == _key(tensor) for tensor in outputs):
                # Its values before are gone; whether they were finite is known by their maker.
                record.inputs.extend([maker] if maker is not None else [])
            elif operand.is_floating_point():
                record.ranges.append(self._range(operand))
                if not self._finite(operand):
                    record.inputs.append(operand if maker is None else maker)
        scalars = [a for a in list(args) + list(kwargs.values()) if isinstance(a, float)]
        record.wilful = any(not math.isfinite(a) for a in scalars) and name.startswith(_FILLS)
        if node is not None:
            site = self._site_in_backward() or self._forward.get(node._sequence_nr())
            site = site or self._site()
            record.operation = f"{_forward_name(node.name())} (backward: {name})"
        assert site is not None
        record.spot, record.text, record.modules = site
        record.outputs = outputs
        self._records.append(record)
        for tensor in outputs:
            self._makers[_key(tensor)] = record

    def _range(self, tensor: Any) -> str:
        values = tensor.detach()[self._torch.isfinite(tensor.detach())]
        if not values.numel():
            return "no finite value"
        return f"{values.min().item():.6g} … {values.max().item():.6g}"

    def _site_in_backward(self) -> Optional[Tuple[Tuple[str, int, str], str, List[str]]]:
        """The line of a custom Function's own backward, when one is running."""
        frame: Optional[FrameType] = sys._getframe(1)
        while frame is not None:
            code = frame.f_code
            if self._source.is_user(code):
                return place(frame), _expression(frame), []
            if code.co_name in ("_engine_run_backward", "backward") and code.co_filename.endswith(
                ("autograd/graph.py", "autograd/__init__.py")
            ):
                return None
            frame = frame.f_back
        return None

    def _site(self) -> Tuple[Tuple[str, int, str], str, List[str]]:
        """The innermost user line that runs now, its text, and the modules around it."""
        frame = self._source.frame(sys._getframe(1))
        spot = place(frame)
        if spot[0] == self._code_file and spot[2] == "<module>":
            spot = (spot[0], spot[1], self._function)
        modules = []
        outer = frame
        while outer is not None:
            me = outer.f_locals.get("self") if outer.f_code.co_name == "forward" else None
            known = None if me is None else self._models.module(me)
            if known is not None:
                modules.append(known[0] or type(me).__name__)
            outer = outer.f_back
        return spot, _expression(frame), modules

    def _judge(
        self, owner: ast.AST, statements: List[ast.stmt], frame: FrameType
    ) -> Dict[str, Any]:
        births: List[_Record] = []
        leaves: List[Any] = []
        seen: Set[int] = set()
        waiting: List[Any] = [self._makers.get(_key(t), t) for t in self._reached]
        while waiting:
            thing = waiting.pop()
            if not isinstance(thing, _Record):
                leaves.append(thing)
                continue
            if thing.index in seen:
                continue
            seen.add(thing.index)
            causes = [c for c in thing.inputs if not _wilful(c, self._torch)]
            causes = causes or self._tables(thing)
            if causes:
                waiting.extend(causes)
            elif not thing.wilful:
                births.append(thing)
        if not births:
            return self._judge_leaves(leaves, owner, statements, frame)
        birth = min(births, key=lambda record: record.index)
        result = ", ".join(sorted({_health(t, self._torch) for t in birth.outputs}))
        evidence = ["{} of {} gives {}".format(birth.operation, " and ".join(birth.ranges), result)]
        if birth.modules:
            evidence.append("inside " + ", called by ".join(birth.modules))
        return {
            "where": where(birth.spot),
            "certain": True,
            "module": birth.modules[0] if birth.modules else None,
            "operation": birth.operation,
            "expression": birth.text,
            "evidence": evidence,
        }

    def _tables(self, record: _Record) -> List[Any]:
        """Infinities among other numbers that come into the iteration: no mask, but data."""
        if any(part in record.operation for part in _NORMALISE):
            return []
        leaves: List[Any] = []
        waiting, seen = list(record.inputs), set()
        while waiting:
            thing = waiting.pop()
            if isinstance(thing, _Record):
                if thing.wilful:
                    return []
                if thing.index not in seen:
                    seen.add(thing.index)
                    waiting.extend(thing.inputs)
            elif not _is_mask(thing, self._torch):
                leaves.append(thing)
        return leaves

    def _judge_leaves(
        self, leaves: List[Any], owner: ast.AST, statements: List[ast.stmt], frame: FrameType
    ) -> Dict[str, Any]:
        """Values that came into the iteration not finite: who made them?"""
        keys = {_key(leaf): leaf for leaf in leaves}
        if not keys:
            return {}
        data = Data(self._torch, self._source)
        handed = self._handed_out(keys, owner, statements, frame)
        if not handed:
            return self._made_before(leaves, data, frame)
        leaf = keys[handed.pop("key")]
        if isinstance(owner, ast.For):
            with self._unseen():
                spot = data.of_loop(frame, owner, leaf)
            if spot is not None:
                handed.update(_made_by(spot))
        return handed

    def _made_before(self, leaves: List[Any], data: Data, frame: FrameType) -> Dict[str, Any]:
        """Variables that were bad before the loop began."""
        for leaf in leaves:
            with self._unseen():
                spot = data.of_variable(frame, leaf)
            if spot is not None:
                was = f"it was {_health(leaf, self._torch)} before the loop began"
                return {**_made_by(spot), "evidence": [was]}
        return {}

    def _handed_out(
        self, keys: Dict[int, Any], owner: ast.AST, statements: List[ast.stmt], frame: FrameType
    ) -> Dict[str, Any]:
        """What the loop hands out, where that is among these."""
        if not isinstance(owner, ast.For):
            return {}
        targets = {node.id for node in ast.walk(owner.target) if isinstance(node, ast.Name)}
        for name in sorted(targets):
            value = frame.f_locals.get(name)
            found = [_key(tensor) for tensor in _tensors(value) if _key(tensor) in keys]
            if not found:
                continue
            stored = [s for s in statements if name in bound(s)]
            # Bound again in the body: what the loop gave is gone, that line is the likely one.
            line = stored[0].lineno if stored else owner.lineno
            spot = (frame.f_code.co_filename, line, self._function)
            what = "computed again from" if stored else "handed out by"
            return {
                "key": found[0],
                "where": where(spot),
                "certain": not stored,
                "operation": None if stored else "load",
                "expression": linecache.getline(spot[0], line).strip(),
                "tensor": name,
                "evidence": [f"{name} is not finite as {what} the loop of line {owner.lineno}"],
            }
        return {}


def _made_by(spot: Tuple[str, int, str]) -> Dict[str, Any]:
    text = linecache.getline(spot[0], spot[1]).strip()
    return {"where": where(spot), "certain": True, "operation": "data", "expression": text}


def _recorder(torch: Any, look: Any) -> Any:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            result = func(*args, **(kwargs or {}))
            look(func, args, kwargs or {}, result)
            return result

    return Recorder()  # type: ignore[no-untyped-call]


def _forward_name(node: str) -> str:
    """The operation that a node is the backward of: "nll_loss" for NllLossBackward0."""
    stem = re.sub(r"Backward\d*$", "", node.rpartition(".")[2])
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", stem).lower()


def _tensors(value: Any) -> Iterator[Any]:
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from _tensors(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item)
    elif hasattr(value, "untyped_storage"):
        yield value


def _key(tensor: Any) -> int:
    return int(tensor.untyped_storage().data_ptr())


def _health(tensor: Any, torch: Any) -> str:
    tensor = tensor.detach()
    if torch.isnan(tensor).any().item():
        return "NaN"
    return "-inf" if (tensor == -math.inf).any().item() else "inf"


def _wilful(cause: Any, torch: Any) -> bool:
    """Whether an operand's infinities were meant: a fill with inf, or what carries one on."""
    if isinstance(cause, _Record):
        if cause.wilful:
            return True
        causes = [c for c in cause.inputs if not _wilful(c, torch)]
        carried = bool(cause.inputs) and not causes
        return carried and not any(torch.isnan(t).any().item() for t in cause.outputs)
    # A leaf with infinities and no NaN is a mask.
    return not torch.isnan(cause.detach()).any().item()


def _is_mask(tensor: Any, torch: Any) -> bool:
    """Whether beside infinities a tensor holds one number only, as masks do."""
    values = tensor.detach()[torch.isfinite(tensor.detach())]
    return not values.numel() or bool((values == values[0]).all().item())


def _expression(frame: Optional[FrameType]) -> str:
    """The text of what the frame is computing: the expression, or before Python 3.11 its line."""
    if frame is None:
        return ""
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
    positions = getattr(frame.f_code, "co_positions", None)
    if positions is not None and frame.f_lasti >= 0:
        for at, (first, last, start, end) in enumerate(positions()):
            if at == frame.f_lasti // 2:
                if first == last == frame.f_lineno and start is not None and end is not None:
                    return line.encode()[start:end].decode("utf-8", "replace")
                break
    return line.strip()
