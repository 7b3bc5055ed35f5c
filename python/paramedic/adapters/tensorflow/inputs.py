"""What each worker reads: the data sets that it gives to its strategy, and their first samples.

A data set is told once it is seen to be trained on: a step lies between two of its batches, or a
function that trains was given its iterator. Batches that pass through Python are looked at, so that
samples can be compared between workers by their content; those that a function draws itself are
not seen, and only the configuration tells.
"""

import functools
import os
import sys
import weakref
import zlib
from array import array
from binascii import b2a_base64
from typing import Any, Dict, List, MutableMapping, Optional, Tuple

from paramedic.adapters.common.ranks import rank_ranges
from paramedic.adapters.common.source import Source, place, where
from paramedic.adapters.tensorflow.datasets import facts_of
from paramedic.adapters.tensorflow.session import Session

MAX_DATASETS = 64  # of a process
MAX_ROWS = 4096  # samples of a pass whose content is looked at
MAX_ROW_BYTES = 1 << 20
TELL_AT_BATCHES = (8, 32, 512)


class Given:
    """A data set that was given to a strategy."""

    def __init__(self, number: int, facts: Optional[Dict[str, Any]], spot: Tuple[str, int, str]):
        self.number = number
        self.facts = facts
        self.spot = spot
        self.trained = False
        self.passes = 0

    @property
    def name(self) -> str:
        """As the watches name a loader."""
        return f"{os.path.basename(self.spot[0])}:{self.spot[1]}"


class Pass:
    """One iterator over it."""

    def __init__(self, given: Given, resources: List[Any]) -> None:
        self.given = given
        self.resources = resources
        self.epoch = given.passes
        self.first_step = -1
        self.begun = False
        self.batches = 0
        self.samples = 0
        self.contents = array("I")
        given.passes += 1


class Inputs:
    """Watches data sets being given to a strategy, and read."""

    def __init__(self, session: Session, source: Source) -> None:
        self._session = session
        self._source = source
        self._tap = session.tap("data sets")
        self._given: MutableMapping[Any, Given] = weakref.WeakKeyDictionary()
        self._passes: MutableMapping[Any, Pass] = weakref.WeakKeyDictionary()
        self._count = 0
        self._untrained = 0  # data sets of which it is not known that they are trained on

    def watch(self) -> None:
        """Replaces what gives data sets to a strategy, and what draws from them."""
        strategies: Any = sys.modules["tensorflow.python.distribute.collective_all_reduce_strategy"]
        owner = strategies.CollectiveAllReduceExtended
        for name in ("_experimental_distribute_dataset", "_distribute_datasets_from_function"):
            setattr(owner, name, self._wrapped_giving(getattr(owner, name)))
        library: Any = sys.modules["tensorflow.python.distribute.input_lib"]
        for kind in (library.DistributedDataset, library.DistributedDatasetsFromFunction):
            kind.__iter__ = self._wrapped_iter(kind.__iter__)
        base = library.DistributedIteratorBase
        base.__next__ = self._wrapped_next(base.__next__)

    def trained_with(self, arguments: Any) -> None:
        """A function that trains was called: the iterators among its arguments are trained on."""
        if not self._untrained or not self._tap.on:
            return
        try:
            ids = {id(argument) for argument in arguments}
            for reading in list(self._passes.values()):
                if not reading.given.trained and ids.intersection(map(id, reading.resources)):
                    self._train(reading.given)
        except Exception as error:
            self._tap.fail(error)

    def _wrapped_giving(self, genuine: Any) -> Any:
        @functools.wraps(genuine)
        def give(strategy: Any, data: Any, *args: Any, **kwargs: Any) -> Any:
            result = genuine(strategy, data, *args, **kwargs)
            if self._tap.on:
                try:
                    self._give(result, data, sys._getframe(1))
                except Exception as error:
                    self._tap.fail(error)
            return result

        return give

    def _give(self, distributed: Any, data: Any, frame: Any) -> None:
        task = self._session.task
        if task is None or len(task.workers) < 2 or self._count >= MAX_DATASETS:
            return
        spot = place(self._source.frame(frame))
        # Of a function that makes them only the batches tell what they are.
        facts = facts_of(data) if hasattr(data, "options") else None
        given = self._given[distributed] = Given(self._count, facts, spot)
        self._count += 1
        self._untrained += 1
        # With too few files the job fails before it trains.
        if facts is not None and facts["policy"] == "FILE":
            self._train(given)

    def _wrapped_iter(self, genuine: Any) -> Any:
        @functools.wraps(genuine)
        def __iter__(distributed: Any) -> Any:
            iterator = genuine(distributed)
            if self._tap.on:
                try:
                    given = self._given.get(distributed)
                    if given is not None:
                        self._passes[iterator] = Pass(given, _resources(iterator))
                except Exception as error:
                    self._tap.fail(error)
            return iterator

        return __iter__

    def _wrapped_next(self, genuine: Any) -> Any:
        @functools.wraps(genuine)
        def __next__(iterator: Any) -> Any:
            reading = self._passes.get(iterator) if self._tap.on else None
            if reading is None:
                return genuine(iterator)
            try:
                batch = genuine(iterator)
            except StopIteration:
                self._guarded(self._over, reading)
                raise
            self._guarded(self._took, reading, batch)
            return batch

        return __next__

    def _guarded(self, function: Any, *args: Any) -> None:
        try:
            if self._session.thread and not self._session.off:
                function(*args)
        except Exception as error:
            self._tap.fail(error)

    def _took(self, reading: Pass, batch: Any) -> None:
        step = self._session.step
        if reading.first_step < 0:
            reading.first_step = step
        reading.batches += 1
        self._look(reading, batch)
        if not reading.given.trained and step > reading.first_step:
            self._train(reading.given)
        if reading.given.trained and reading.batches in TELL_AT_BATCHES:
            self._tell(reading, False)

    def _over(self, reading: Pass) -> None:
        if not reading.given.trained and self._session.step > reading.first_step >= 0:
            self._train(reading.given)
        if reading.given.trained:
            self._tell(reading, True)

    def _train(self, given: Given) -> None:
        given.trained = True
        self._untrained -= 1
        task = self._session.task
        if given.facts is not None and task is not None:
            fields = dict(given.facts, number=given.number, workers=task.workers)
            fields["where"] = where(given.spot)
            self._session.tell("distributed_dataset", fields)

    def _tell(self, reading: Pass, over: bool) -> None:
        given, task = reading.given, self._session.task
        if task is None:
            return
        key = {"loader": given.name, "epoch": reading.epoch}
        if not reading.begun:
            reading.begun = True
            begun = dict(key, where=where(given.spot), batches=None, batch_size=1)
            begun["sharing"] = {"ranks": rank_ranges(task.workers), "join": False}
            self._session.event("epoch_begun", begun)
        contents = reading.contents
        hashes = b2a_base64(array("I", sorted(set(contents))).tobytes(), newline=False).decode()
        read = dict(key, over=over, exhausted=over, batches=reading.batches)
        read.update(samples=reading.samples, contents={"read": len(contents), "hashes": hashes})
        self._session.event("epoch_read", read)

    def _look(self, reading: Pass, batch: Any) -> None:
        """Adds a hash of each sample: of its widest part, in the order of the batch."""
        nest = self._session.tensorflow.nest
        widest, widest_bytes = None, 0
        for part in nest.flatten(batch):
            # Of several replicas of a worker the first one's is looked at.
            tensor = getattr(part, "values", (part,))[0]
            size = _bytes_of(tensor)
            if size > widest_bytes:
                widest, widest_bytes = tensor, size
        if widest is None:
            return
        count = int(widest.shape[0])
        reading.samples += count
        step = widest_bytes // count
        if len(reading.contents) >= MAX_ROWS or step > MAX_ROW_BYTES:
            return
        rows = memoryview(widest.numpy()).cast("B")
        crc32 = zlib.crc32
        hashes = [crc32(rows[at : at + step]) for at in range(0, widest_bytes, step)]
        reading.contents.extend(hashes[: MAX_ROWS - len(reading.contents)])


def _resources(iterator: Any) -> List[Any]:
    """The handles by which a function knows the iterator."""
    found = []
    for one in getattr(iterator, "_iterators", ()):
        inner = getattr(one, "_iterator", None)
        resource = getattr(inner, "_iterator_resource", None)
        if resource is None:
            resource = getattr(inner, "_multi_device_iterator_resource", None)
        if resource is not None:
            found.append(resource)
    return found


def _bytes_of(tensor: Any) -> int:
    """Bytes of a batch of numbers on the CPU; 0 of anything else."""
    shape, device = getattr(tensor, "shape", None), getattr(tensor, "device", "")
    if not hasattr(tensor, "numpy") or shape is None or not len(shape) or "CPU" not in device:
        return 0
    size = getattr(tensor.dtype, "size", 0) or 0
    return int(shape.num_elements() or 0) * size if tensor.dtype.name != "string" else 0
