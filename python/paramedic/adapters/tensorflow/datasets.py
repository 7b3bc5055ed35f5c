"""What a tf.data pipeline says of itself, without drawing anything from it.

Two workers read the same samples when their sources are equal, nothing on the way shares them out,
and the policy does not either. The print is equal only where all that could tell them apart is: the
source by its shape and some of its values, or by the names of its files, and every stage by its
numbers and its traced function. Where the samples come from is not known (a generator, a range that
a function turns into samples), there is no print, and nothing is said.
"""

import hashlib
from typing import Any, Dict, List, Optional

MAX_STAGES = 200
ROWS = 32  # at the beginning and at the end of a source, whose values are looked at
MAX_NAMES = 10_000

# Attributes of stages that hold numbers.
_NUMBERS = ("_count", "_batch_size", "_num_shards", "_index")
# Stages whose samples are not those of their input.
_MAKE_SAMPLES = ("FlatMap", "Interleave")
_CHOOSE = ("Shard", "Filter")


def facts_of(dataset: Any) -> Dict[str, Any]:
    """Fields of `distributed_dataset` that the pipeline itself tells (src/cluster/auto_shard.h)."""
    walk = _Walk()
    walk.see(dataset)
    options = dataset.options()
    known = walk.source != "" and not walk.unknown
    return {
        "policy": options.experimental_distribute.auto_shard_policy.name,
        "cardinality": int(dataset.cardinality().numpy()),
        "source": walk.source,
        "count": walk.count,
        "print": walk.digest.hexdigest() if known else "",
        "shuffled": walk.shuffled,
        "sharded": walk.sharded,
    }


class _Walk:
    """From the end of a pipeline to its sources."""

    def __init__(self) -> None:
        self.digest = hashlib.blake2b(digest_size=8)
        self.source = ""
        self.count = -1
        self.unknown = False
        self.shuffled = False
        self.sharded = False
        self._makes_samples = False

    def see(self, dataset: Any) -> None:
        waiting: List[Any] = [dataset]
        for _ in range(MAX_STAGES):
            if not waiting:
                return
            stage = waiting.pop()
            if self._see_source(stage):
                continue
            self._see_stage(stage)
            inputs = list(stage._inputs())
            if not inputs:
                self.unknown = True
            waiting += inputs
        self.unknown = True

    def _see_stage(self, stage: Any) -> None:
        name = type(stage).__name__
        self.shuffled = self.shuffled or "Shuffle" in name
        self.sharded = self.sharded or any(part in name for part in _CHOOSE)
        self._makes_samples = self._makes_samples or any(part in name for part in _MAKE_SAMPLES)
        self._add(name)
        for attribute in _NUMBERS:
            value = getattr(stage, attribute, None)
            if value is not None:
                self._add(repr(value.numpy() if hasattr(value, "numpy") else value))
        function = getattr(getattr(stage, "_map_func", None), "function", None)
        if function is not None:
            self._add_function(function)

    def _see_source(self, stage: Any) -> bool:
        names = getattr(stage, "_filenames", None)
        if names is not None:
            self._see_files(getattr(names, "_tensors", [names])[0])
            return True
        if type(stage).__name__ != "_TensorSliceDataset":
            return False
        tensors = stage._tensors
        if len(tensors) == 1 and tensors[0].dtype.name == "string":
            self._see_files(tensors[0])
            return True
        # What a function makes of it are other samples: only names of files stand for themselves.
        self.unknown = self.unknown or self._makes_samples
        self.source, self.count = "tensors", int(tensors[0].shape[0])
        for tensor in tensors:
            self._add(str(tensor.shape), tensor.dtype.name)
            self._add_rows(tensor)
        return True

    def _see_files(self, names: Optional[Any]) -> None:
        if names is None or not hasattr(names, "numpy"):
            self.unknown = True
            return
        values = names.numpy().reshape(-1)
        self.source, self.count = "files", len(values)
        for value in values[:MAX_NAMES]:
            self.digest.update(bytes(value) + b"\0")

    def _add_rows(self, tensor: Any) -> None:
        for rows in (tensor[:ROWS], tensor[-ROWS:]):
            value = rows.numpy()
            self.digest.update(repr(value.tolist()).encode() if value.dtype.hasobject else value)

    def _add_function(self, function: Any) -> None:
        definition = type(function.function_def)()
        definition.CopyFrom(function.function_def)
        # It counts the functions of a process.
        definition.signature.name = ""
        self.digest.update(definition.SerializeToString(deterministic=True))

    def _add(self, *texts: str) -> None:
        for text in texts:
            self.digest.update(text.encode("utf-8", "replace") + b"\0")
