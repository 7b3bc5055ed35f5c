"""Crashes of a DataLoader: the same batch again, a bad sample left out, workers that died replaced.

Everything happens inside the loader's own iterator, since others (enumerate, tqdm) hold on to it:
after `prepare` its next `next()` gives what the repair wants. Batches come in the sampler's order,
each once. To know which batch a worker was loading, the index lists that are sent to workers are
noted on the iterator (0.2 µs a batch).
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import math
import multiprocessing
import sys
import weakref
from types import FrameType, SimpleNamespace
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Set, Tuple

from paramedic.recovery.crash import Crash, Refused
from paramedic.recovery.memory import frames_inside
from paramedic.recovery.random_state import RandomState

_SENT = "_paramedic_sent"  # on an iterator: task number → the index lists sent under it
_RESTARTS = "_paramedic_restarts"
_PREPARED = "_paramedic_prepared"  # on an exception: the indices left before a repair
MAX_DATASETS = 100

# By data set: those that were left out.
_bad: Dict[int, Tuple[Callable[[], Any], Set[Any]]] = {}


def install() -> None:
    """Notes index lists from now on; once torch is imported, before loaders are used."""
    dataloader: Any = sys.modules.get("torch.utils.data.dataloader")
    base = getattr(dataloader, "_BaseDataLoaderIter", None)
    if base is None or hasattr(base._next_index, "__wrapped__"):
        return
    genuine = base._next_index

    @functools.wraps(genuine)
    def _next_index(self: Any) -> Any:
        index = genuine(self)
        return _noted(self, index, genuine) if self._num_workers or _bad else index

    base._next_index = _next_index


def prepare(
    crash: Crash,
    kind: str,
    options: Optional[Dict[str, Any]] = None,
    header: Optional[FrameType] = None,
) -> Optional[str]:
    """Makes the DataLoader that crashed in a loop's header go on as the repair wants.

    Args:
        crash: in a loop's header, or in what that has called.
        kind: "retry" and "edit" give the same batch again, "skip" leaves it out.
        options: of a skip: `sample` leaves out the bad samples alone, of which there may be
            `max_share` of the data set, but always one; `samples` gets their indices.
        header: the frame of the loop, where it is not the crashed one.

    Returns:
        What will be done, or None where no DataLoader crashed.

    Raises:
        Refused: batches would get lost.
    """
    options = {} if options is None else options
    dataloader: Any = sys.modules.get("torch.utils.data.dataloader")
    if dataloader is None:
        return None
    frames = frames_inside(crash, header)
    iterator = _of_kind(frames, dataloader._BaseDataLoaderIter)
    if iterator is None:
        return None
    _undo(iterator, crash.exception)
    with _untouched_random_state():
        if iterator._num_workers == 0:
            return _prepare_single(iterator, frames, kind, options)
        return _prepare_workers(iterator, frames, kind, options)


@contextlib.contextmanager
def _untouched_random_state() -> Iterator[None]:
    random_state = RandomState()
    random_state.keep()
    try:
        yield
    finally:
        random_state.put_back()


def _undo(iterator: Any, error: BaseException) -> None:
    """Takes back what an earlier repair of the same crash had prepared before it was refused."""
    before = error.__dict__.get(_PREPARED)
    if before is not None:
        iterator._sampler_iter = before
        iterator.__dict__.pop("_next_data", None)
    error.__dict__[_PREPARED] = iterator._sampler_iter


def _noted(iterator: Any, index: Any, genuine: Callable[[Any], Any]) -> Any:
    bad = _bad.get(id(iterator._dataset))
    while bad is not None and bad[0]() is iterator._dataset:
        good = _without(index, bad[1], iterator._auto_collation)
        if good is not None:
            index = good
            break
        index = genuine(iterator)
    if iterator._num_workers:
        sent = iterator.__dict__.setdefault(_SENT, {})
        number = iterator._send_idx
        if number == 0:
            sent.clear()
        sent.setdefault(number, []).append(index)
        # The one that was received last may still turn out to be an exception.
        for old in [key for key in sent if key < iterator._rcvd_idx - 1]:
            del sent[old]
    return index


def _without(index: Any, bad: Set[Any], batched: bool) -> Any:
    """An index list without the bad ones; None when nothing is left."""
    if not batched:
        return None if _is_in(index, bad) else index
    good = [one for one in index if not _is_in(one, bad)]
    if len(good) == len(index):
        return index
    return good or None


def _is_in(index: Any, bad: Set[Any]) -> bool:
    try:
        return index in bad
    except TypeError:
        return False  # an index that cannot be hashed was never noted as bad


def _prepare_single(
    iterator: Any, frames: List[FrameType], kind: str, options: Dict[str, Any]
) -> Optional[str]:
    index = _local(frames, "_next_data", "index")
    if index is None:
        return None  # the sampler crashed, no batch was asked for
    fetcher = iterator._dataset_fetcher
    if hasattr(fetcher, "dataset_iter"):
        return _prepare_stream(iterator, fetcher, frames, index, kind)
    if kind != "skip":
        _push(iterator, [index])
        return "the same batch is loaded again"
    if not options.get("sample"):
        return "the batch is left out"
    at = _local(frames, "<listcomp>", "idx", _local(frames, "fetch", "idx"))
    if at is None or not iterator._auto_collation or _in_collate(frames):
        return _deliver_rest(iterator, index, options)
    _note_bad(iterator, [at], options)
    rest = [one for one in index if one is not at and one != at]
    if rest:
        _push(iterator, [rest])
    return f"sample {at} is left out"


def _prepare_stream(
    iterator: Any, fetcher: Any, frames: List[FrameType], index: Any, kind: str
) -> str:
    """A stream gives each sample once: those of the batch that were read already go first again."""
    stream = fetcher.dataset_iter
    # One that is running is on the stack of the crash, and is about to end with the exception.
    if inspect.isgenerator(stream) and (stream.gi_frame is None or stream.gi_running):
        raise Refused(
            "the generator of the data set ended with the exception: what it had left would be "
            "missing silently"
        )
    read = _local(frames, "fetch", "data", [])
    if not iterator._auto_collation:
        return "the stream goes on with its next item"
    if kind == "skip" and (fetcher.ended or len(read) == len(index)):
        return "the batch is left out"
    fetcher.ended = False
    fetcher.dataset_iter = itertools.chain(list(read), stream)
    _push(iterator, [index])
    return "the stream goes on with its next sample"


def _prepare_workers(
    iterator: Any, frames: List[FrameType], kind: str, options: Dict[str, Any]
) -> str:
    # In `_process_data` an exception came from a worker that lives.
    failed = any(frame.f_code.co_name == "_process_data" for frame in frames)
    if iterator._dataset_kind != 0:
        return _prepare_worker_streams(iterator, kind, failed)
    first = iterator._rcvd_idx - 1 if failed else iterator._rcvd_idx
    sent = iterator.__dict__.get(_SENT, {})
    if kind == "skip" and failed:
        if not options.get("sample"):
            return "the batch is left out"
        lists = sent.get(first)
        if not lists:
            return "the batch is left out: its samples are not known"
        return _deliver_rest(iterator, lists[0], options)
    numbers = range(first, iterator._send_idx)
    if any(number not in sent for number in numbers):
        raise Refused("the batches that the workers were loading are not known")
    pending = [one for number in sorted(sent) if number >= first for one in sent[number]]
    if kind == "skip":
        pending = pending[1:]
    # Not now: an edit of the data set is to be in place when they start.
    _at_next(iterator, lambda: _restart(iterator, pending))
    return "new workers load the batches that were under way"


def _prepare_worker_streams(iterator: Any, kind: str, failed: bool) -> str:
    if not failed:
        raise Refused("the data set is a stream: a new worker would read it from its beginning")
    if inspect.isgeneratorfunction(getattr(type(iterator._dataset), "__iter__", None)):
        raise Refused(
            "the stream of the worker ended with the exception: what it had left would be missing "
            "silently"
        )
    if kind != "skip":
        raise Refused("the data set is a stream: what the worker read of the batch is gone")
    return "the batch is left out"


def _deliver_rest(iterator: Any, index: Any, options: Dict[str, Any]) -> str:
    """Loads the samples of a batch one by one here, and hands out those that are good."""
    dataset, collate = iterator._dataset, iterator._collate_fn
    if not iterator._auto_collation:
        _note_bad(iterator, [index], options)
        return f"sample {index} is left out"
    good: List[Tuple[Any, Any]] = []
    bad: List[Any] = []
    for one in index:
        try:
            good.append((one, dataset[one]))
        except Exception:
            bad.append(one)
    if not bad:
        good, odd = _collatable(collate, good)
        bad = [one for one, _ in odd]
    if not good or not bad:
        return "the batch is left out: its bad sample could not be told"
    try:
        batch = collate([sample for _, sample in good])
    except Exception:
        return "the batch is left out: the rest of it does not make a batch"
    _note_bad(iterator, bad, options)
    if iterator._pin_memory:
        utils: Any = sys.modules["torch.utils.data._utils"]
        batch = utils.pin_memory.pin_memory(batch, getattr(iterator, "_pin_memory_device", None))
    _at_next(iterator, lambda: batch)
    return "left out: sample " + ", ".join(map(str, bad))


def _collatable(
    collate: Callable[[Any], Any], samples: List[Tuple[Any, Any]]
) -> Tuple[List[Tuple[Any, Any]], List[Tuple[Any, Any]]]:
    """Those that make a batch with one of the first three, the most of them; and the others."""

    def goes_with(first: Any, second: Any) -> bool:
        try:
            collate([first, second])
        except Exception:
            return False
        return True

    best: List[Tuple[Any, Any]] = []
    for _, reference in samples[:3]:
        fitting = [pair for pair in samples if goes_with(reference, pair[1])]
        best = max(best, fitting, key=len)
    kept = {id(pair) for pair in best}
    return best, [pair for pair in samples if id(pair) not in kept]


def _note_bad(iterator: Any, indices: Iterable[Any], options: Dict[str, Any]) -> None:
    """Records samples; they are not asked for again. Raises Refused when it is too many."""
    dataset = iterator._dataset
    known = _bad.get(id(dataset))
    bad = set(known[1]) if known is not None and known[0]() is dataset else set()
    try:
        bad.update(indices)
    except TypeError:
        options["samples"] = [str(index) for index in indices]
        return
    share, size = options.get("max_share"), _length(dataset)
    if share is not None and size and len(bad) > max(1, math.floor(share * size)):
        raise Refused(
            f"{len(bad)} of {size} samples cannot be used, more than the share of {share:g} that "
            "may be left out"
        )
    options["samples"] = [str(index) for index in indices]
    if len(_bad) < MAX_DATASETS or known is not None:
        try:
            reference: Callable[[], Any] = weakref.ref(dataset)
        except TypeError:
            reference = functools.partial(_itself, dataset)
        _bad[id(dataset)] = (reference, bad)


def _itself(thing: Any) -> Any:
    return thing


def _length(dataset: Any) -> int:
    try:
        return len(dataset)
    except TypeError:
        return 0


def _push(iterator: Any, indices: List[Any]) -> None:
    iterator._sampler_iter = itertools.chain(indices, iterator._sampler_iter)


def _at_next(iterator: Any, first: Callable[[], Any]) -> None:
    """The next `next()` gives what `first` answers."""

    def _next_data() -> Any:
        del iterator.__dict__["_next_data"]
        return first()

    iterator.__dict__["_next_data"] = _next_data


def _restart(iterator: Any, pending: List[Any]) -> Any:
    """New workers in place of the old ones, in the same iterator; answers their first batch."""
    restarts = iterator.__dict__.get(_RESTARTS, 0) + 1
    yielded, sampler, workers = iterator._num_yielded, iterator._index_sampler, iterator._workers
    method = getattr(type(workers[0]), "_start_method", None) if workers else None
    seed = iterator._base_seed
    torch: Any = sys.modules["torch"]
    loader = SimpleNamespace(
        dataset=iterator._dataset,
        _dataset_kind=iterator._dataset_kind,
        _IterableDataset_len_called=iterator._IterableDataset_len_called,
        _auto_collation=iterator._auto_collation,
        drop_last=iterator._drop_last,
        _index_sampler=itertools.chain(pending, iterator._sampler_iter),
        # A machine that kills workers twice has too little memory for so many.
        num_workers=max(1, iterator._num_workers // (1 if restarts == 1 else 2)),
        pin_memory=iterator._pin_memory,
        pin_memory_device="",
        timeout=iterator._timeout,
        collate_fn=iterator._collate_fn,
        # The job's own generators are not drawn from.
        generator=torch.Generator().manual_seed(seed % 2**63),
        persistent_workers=iterator._persistent_workers,
        prefetch_factor=iterator._prefetch_factor,
        in_order=getattr(iterator, "_in_order", True),
        multiprocessing_context=multiprocessing.get_context(method) if method else None,
        worker_init_fn=iterator._worker_init_fn,
    )
    iterator._shutdown_workers()
    iterator.__dict__.pop(_SENT, None)
    iterator.__dict__.pop("_next_data", None)
    with _untouched_random_state():
        iterator.__init__(loader)
    iterator._index_sampler = sampler
    iterator._num_yielded = yielded
    iterator.__dict__[_RESTARTS] = restarts
    return iterator._next_data()


def _of_kind(frames: List[FrameType], kind: Any) -> Any:
    for frame in frames:
        for name in ("self", "iterator"):
            value = frame.f_locals.get(name)
            if isinstance(value, kind):
                return value
    return None


def _local(frames: List[FrameType], function: str, name: str, default: Any = None) -> Any:
    """A variable of a function of `torch.utils.data` on the stack."""
    for frame in frames:
        if frame.f_code.co_name == function and _is_torch_data(frame):
            return frame.f_locals.get(name, default)
    return default


def _in_collate(frames: List[FrameType]) -> bool:
    """Whether the samples of a batch were all there and did not make one."""
    return _local(frames, "fetch", "data") is not None


def _is_torch_data(frame: FrameType) -> bool:
    return "torch/utils/data/" in frame.f_code.co_filename.replace("\\", "/")
