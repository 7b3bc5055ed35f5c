"""Calls of collectives and of point-to-point operations.

The methods of `ProcessGroup` are replaced, which every function of `torch.distributed` ends in:
those functions stay what they are, for pickle, for torch.compile and for whoever compares them.
What C++ calls (the buckets of DDP) is seen by the flight recorder alone.

The first call from a line with tensors of a shape goes through `_enter`: the walk up to the user's
line, and a look into a table of calls. The next ones are recorded natively (known_calls).
"""

import functools
import sys
from _thread import get_ident
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from paramedic import _probe
from paramedic.adapters.common.source import Source, place
from paramedic.adapters.torch.distributed.functional import wrap_functional
from paramedic.adapters.torch.distributed.groups import Group, Groups
from paramedic.adapters.torch.distributed.known_calls import KnownCalls
from paramedic.adapters.torch.session import Session

MAX_CALLS = 4096  # different ones; then they are forgotten and made anew
MAX_SITES = 1000  # lines of code that are told; code made at run time could be without end
MAX_WORKS = 10_000  # that were started and not waited for

NOWHERE = 0xFFFFFFFF


class Method(NamedTuple):
    """How a method of a group is called."""

    operation: str
    tensors: int  # which argument has the tensors whose size is told; -1: none
    root: bool = False  # its options name a root
    peer: int = -1  # which argument is a rank of the group
    point_to_point: bool = False


# The input's size is told, but where only one rank has an input: then the output's.
METHODS = {
    "allreduce": Method("all_reduce", 0),
    "allreduce_coalesced": Method("all_reduce_coalesced", 0),
    "broadcast": Method("broadcast", 0, root=True),
    "reduce": Method("reduce", 0, root=True),
    "allgather": Method("all_gather", 1),
    "_allgather_base": Method("all_gather_into_tensor", 1),
    "all_gather_single": Method("all_gather_into_tensor", 1),
    "allgather_coalesced": Method("all_gather_coalesced", 1),
    "allgather_into_tensor_coalesced": Method("all_gather_into_tensor_coalesced", 1),
    "all_gather_single_coalesced": Method("all_gather_into_tensor_coalesced", 1),
    "gather": Method("gather", 1, root=True),
    "scatter": Method("scatter", 0, root=True),
    "reduce_scatter": Method("reduce_scatter", 1),
    "_reduce_scatter_base": Method("reduce_scatter_tensor", 1),
    "reduce_scatter_single": Method("reduce_scatter_tensor", 1),
    "reduce_scatter_tensor_coalesced": Method("reduce_scatter_tensor_coalesced", 1),
    "reduce_scatter_single_coalesced": Method("reduce_scatter_tensor_coalesced", 1),
    "alltoall_base": Method("all_to_all_single", 1),
    "all_to_all_single": Method("all_to_all_single", 1),
    "alltoall": Method("all_to_all", 1),
    "send": Method("send", 0, False, 1, True),
    "recv": Method("recv", 0, False, 1, True),
    "recv_anysource": Method("recv", 0, point_to_point=True),
    "barrier": Method("barrier", -1),
    "monitored_barrier": Method("monitored_barrier", -1),
}
# They wait themselves, though the method below them does not say so.
WAITING_FUNCTIONS = ("send", "recv", "send_object_list", "recv_object_list")


class Call:
    """A call that can be recorded again and again."""

    __slots__ = (
        *("asynchronous", "code", "group", "group_id", "operation", "pointer", "process_group"),
        "record",
    )

    def __init__(self, record: Any, pointer: Any, group: Group, operation: str, code: Any) -> None:
        self.record = record
        self.pointer = pointer
        self.process_group = group
        self.group = group.name
        self.group_id = group.id
        self.operation = operation
        self.asynchronous = bool(record.asynchronous)
        self.code = code  # kept, so that its address stays its own


# A call that was entered, and its number. A plain tuple: one is made for each call.
Entry = Tuple[Call, int]


class Collectives:
    """Records what is called on process groups."""

    def __init__(self, session: Session, source: Source, groups: Groups) -> None:
        self._session = session
        self._source = source
        self._groups = groups
        self._tap = session.tap("collectives")
        self._calls: Dict[Any, Call] = {}
        self._operations: Dict[str, int] = {}
        self._sites: Dict[Any, int] = {}
        # Asynchronous calls, and synchronous ones that are waited for, by the id of their work.
        self._works: Dict[int, Entry] = {}
        # By thread: the call that it is inside of.
        self.inside: Dict[int, Entry] = {}
        # By thread: the call that it has asked for whether it is done, and it was not.
        self.asked: Dict[int, Entry] = {}
        self._count = 0
        self._known: Optional[KnownCalls] = None
        # By the id of a method: its number among the known calls.
        self._numbers: Dict[int, int] = {}
        session.on_fork.append(self._reset)

    def _reset(self) -> None:
        for table in (self._calls, self._operations, self._sites, self._works):
            table.clear()
        self.inside.clear()
        self.asked.clear()
        self._count = 0
        if self._known is not None:
            self._known.reset()

    @property
    def count(self) -> int:
        """Calls entered and left so far."""
        return self._count + (self._known.count if self._known is not None else 0)

    def on(self, on: bool) -> None:
        """Switches recording; for measurements."""
        self._tap.on = on
        if self._known is not None:
            self._known.stop()

    def calls(self) -> List[Call]:
        """The different calls that were made."""
        return list(self._calls.values())

    def watch(self, c10d: Any) -> None:
        """Replaces the methods of groups, and the one that waits."""
        group_class, work_class = c10d.ProcessGroup, c10d.Work
        # How torch binds a native function to a class; Python has no name for this type.
        bound: Any = type(work_class.__dict__["wait"])
        if bound.__name__ == "instancemethod":
            try:
                works = (self._works, MAX_WORKS)
                self._known = KnownCalls(self._session, self._source, works, self.inside)
            except OSError:
                pass  # nothing is lost but some microseconds a call
        for name, method in METHODS.items():
            if name in group_class.__dict__:
                genuine = getattr(group_class, name)
                usual = self._wrapped(genuine, method)
                setattr(group_class, name, self._native(bound, genuine, usual, method) or usual)
        wait = work_class.wait
        if self._known is not None:
            work_class.wait = bound(self._known.wait(wait))
        else:
            work_class.wait = self._wrapped_wait(wait)
        work_class.is_completed = self._wrapped_question(work_class.is_completed)

    def _native(self, bound: Any, genuine: Any, usual: Any, method: Method) -> Any:
        """What stands for a method whose calls can be known; None of others."""
        if self._known is None or method.point_to_point or method.tensors < 0:
            return None
        number, function = self._known.method(genuine, usual, method.tensors, method.root)
        self._numbers[id(method)] = number
        return bound(function)

    def watch_functional(self, module: Any) -> None:
        """Replaces the functional collectives, which call no method of a group."""
        wrap_functional(module, self._session, self._enter_named, self._leave_functional)

    def _wrapped(self, genuine: Any, method: Method) -> Callable[..., Any]:
        tap, session, enter, leave = self._tap, self._session, self._enter, self._leave
        works, inside = self._works, self.inside

        @functools.wraps(genuine)
        def call(group: Any, *args: Any, **kwargs: Any) -> Any:
            if not tap.on or session.probe is None:
                return genuine(group, *args, **kwargs)
            entry = None
            try:
                entry = enter(group, method, args, kwargs)
            except Exception as error:
                self._fail(error)
            if entry is None:
                return genuine(group, *args, **kwargs)
            thread = get_ident()
            if not entry[0].asynchronous:
                inside[thread] = entry
            try:
                work = genuine(group, *args, **kwargs)
            except BaseException:
                inside.pop(thread, None)
                leave(entry)
                raise
            if work is None:
                inside.pop(thread, None)
                leave(entry)
            else:
                if len(works) >= MAX_WORKS:
                    works.clear()
                works[id(work)] = entry
            return work

        return call

    def _wrapped_wait(self, genuine: Any) -> Callable[..., Any]:
        works, inside, leave = self._works, self.inside, self._leave

        @functools.wraps(genuine)
        def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
            entry = works.pop(id(work), None)
            if entry is None:
                return genuine(work, *args, **kwargs)
            thread = get_ident()
            inside[thread] = entry
            try:
                return genuine(work, *args, **kwargs)
            finally:
                inside.pop(thread, None)
                leave(entry)

        return wait

    def _wrapped_question(self, genuine: Any) -> Callable[..., Any]:
        """A loop that asks until a call is done waits for it, as far as others are concerned."""
        works, asked, leave = self._works, self.asked, self._leave

        @functools.wraps(genuine)
        def is_completed(work: Any) -> Any:
            is_done = genuine(work)
            entry = works.get(id(work))
            if entry is None:
                return is_done
            if not is_done:
                asked[get_ident()] = entry
            elif works.pop(id(work), None) is not None:
                asked.pop(get_ident(), None)
                leave(entry)
            return is_done

        return is_completed

    def _fail(self, error: Exception) -> None:
        if self._known is not None:
            self._known.stop()
        self._tap.fail(error)

    def _enter(self, process_group: Any, method: Method, args: Any, kwargs: Any) -> Optional[Entry]:
        group = self._groups.of(process_group)
        if group is None:
            return None
        options = args[-1] if args else kwargs.get("opts")
        peer = -1
        if method.root:
            peer = group.ranks[options.rootRank]
        elif method.peer >= 0:
            peer = group.ranks[args[method.peer]]
        frame = sys._getframe(2)
        asynchronous = getattr(options, "asyncOp", None)
        if asynchronous is None:
            asynchronous = method.point_to_point and not _waits_itself(frame)
        tensors: Any = args[method.tensors] if len(args) > method.tensors >= 0 else None
        if isinstance(tensors, (list, tuple)) and len(tensors) == 1:
            tensors = tensors[0]
        spot = self._source.frame(frame)
        at = 0 if spot is None else id(spot.f_code) + spot.f_lasti
        if tensors is None or isinstance(tensors, (list, tuple)):
            tensor, size = _tensor_of(tensors)
            shape, dtype = (None, None) if tensor is None else (tensor.shape, tensor.dtype)
            key: Any = (at, group.id, method.operation, shape, dtype, peer, asynchronous, size)
        else:
            tensor = tensors
            key = (at, group.id, method.operation, tensor.shape, tensor.dtype, peer, asynchronous)
        call = self._calls.get(key)
        if call is None:
            call = self._make(key, group, spot, _tensor_of(tensors))
        number = self._numbers.get(id(method))
        if number is not None and self._known is not None:
            self._known.start()
            # Of several tensors there is no one shape that the next call could be known by.
            if len(key) == 7:
                root = options.rootRank if method.root else -1
                looks = (tensor.shape, tensor.dtype, root)
                self._known.write_down(number, frame, spot, call, looks)
        return self._record(call, next(group.numbers))

    def _enter_named(self, name: str, operation: str, tensor: Any) -> Optional[Entry]:
        """A functional collective knows its group's name only."""
        process_group = self._groups.by_name(name)
        group = None if process_group is None else self._groups.of(process_group)
        if group is None or self._session.probe is None:
            return None
        spot = self._source.frame(sys._getframe(2))
        at = 0 if spot is None else id(spot.f_code) + spot.f_lasti
        first, size = _tensor_of(tensor)
        shape, dtype = (None, None) if first is None else (first.shape, first.dtype)
        key = (at, group.id, operation, shape, dtype, -1, False, size)
        call = self._calls.get(key)
        if call is None:
            call = self._make(key, group, spot, (first, size))
        entry = self._record(call, next(group.numbers))
        self.inside[get_ident()] = entry
        return entry

    def _leave_functional(self, entry: Entry) -> None:
        self.inside.pop(get_ident(), None)
        self._leave(entry)

    def _record(self, call: Call, number: int) -> Entry:
        self._count += 1
        session = self._session
        if session.probe is not None:
            session.probe.enter(session.step, number, call.pointer)
        return call, number

    def _leave(self, entry: Entry) -> None:
        self._count += 1
        session = self._session
        if session.probe is not None:
            session.probe.leave(session.step, entry[1], entry[0].group_id)

    def _make(self, key: Any, group: Group, spot: Any, tensor: Tuple[Any, int]) -> Call:
        if len(self._calls) >= MAX_CALLS:
            self._calls.clear()
        operation, shape, dtype, peer, asynchronous = key[2:7]
        sizes = () if shape is None else tuple(int(n) for n in shape)[: _probe.MAX_DIMS]
        record = _probe.Collective()
        record.group = group.id
        record.operation = self._operation(operation)
        record.where = self._site(spot)
        record.peer = peer
        record.bytes = tensor[1]
        record.dtype = _probe.DTYPES.get(str(dtype).rpartition(".")[2], _UINT8)
        record.ndim = len(sizes)
        record.asynchronous = asynchronous
        record.sizes[: len(sizes)] = sizes
        code = None if spot is None else spot.f_code
        call = Call(record, _probe.pointer_to(record), group, operation, code)
        self._calls[key] = call
        return call

    def _operation(self, name: str) -> int:
        number = self._operations.get(name)
        if number is None:
            assert self._session.probe is not None
            number = self._session.probe.define(_probe.KIND_OPERATION, 0, (), name)
            self._operations[name] = number
        return number

    def _site(self, spot: Any) -> int:
        if spot is None:
            return NOWHERE
        file, line, function = place(spot)
        key = (file, line, function)
        number = self._sites.get(key)
        if number is None:
            number = NOWHERE
            if len(self._sites) < MAX_SITES:
                assert self._session.probe is not None
                name = f"{function}\n{file}"
                number = self._session.probe.define(_probe.KIND_CALL_SITE, 0, (line,), name)
                self._sites[key] = number = number if number >= 0 else NOWHERE
        return number


_UINT8 = _probe.DTYPES["uint8"]


def _tensor_of(value: Any) -> Tuple[Any, int]:
    """The first tensor of an argument (a tensor, a list, a list of lists), and bytes in all."""
    if isinstance(value, (list, tuple)):
        if len(value) == 1:
            return _tensor_of(value[0])
        found = [_tensor_of(one) for one in value]
        return (found[0][0], sum(size for _, size in found)) if found else (None, 0)
    if value is None:
        return None, 0
    return value, value.numel() * value.element_size()


def _waits_itself(frame: Any) -> bool:
    """Whether a function above, still of torch.distributed, waits for what it sends or receives."""
    file = frame.f_code.co_filename
    for _ in range(6):
        if frame is None:
            return False
        code = frame.f_code
        if code.co_filename == file and code.co_name in WAITING_FUNCTIONS:
            return True
        frame = frame.f_back
    return False
