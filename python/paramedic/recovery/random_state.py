"""The random state of the process: kept at each iteration, put back when one is run again.

Kept are Python's `random`, numpy's global generator, torch's generators of the CPU and of each
accelerator in use, and the generators that project frames hold in variables (found.py). To ask for
these states costs 8, 32 and 5 µs. So what tells that a state has changed (the position in it, its
first words, the normal held back) is read where it lies, and most iterations draw nothing. That the
right bytes are read is proved once against the public functions; where not, those are used.
"""

from __future__ import annotations

import ctypes
import random
import struct
import sys
from typing import Any, Callable, Dict, List, Optional

# Of project frames; more than these are a list of generators, one for each sample or so.
MAX_GENERATORS = 8
_WORDS = 624  # of a Mersenne twister's state
_TWISTER = struct.Struct(f"i{_WORDS}I")  # Python: the position, then the words
_TORCH_STATE_BYTES = 5056
_TORCH_MAX_OFFSET = 160  # of the words in a generator of torch
_NUMPY_TWISTER = struct.Struct(f"{_WORDS}Ii")  # numpy: the words, then the position


def _window(address: int, size: int) -> memoryview:
    kind: Any = ctypes.c_char * size
    return memoryview(kind.from_address(address)).cast("B")


class PythonRandom:
    """A `random.Random`; the module's own by default."""

    def __init__(self, generator: Any = None) -> None:
        module: Any = random
        self._generator: Any = module.random.__self__ if generator is None else generator
        self._live = _window(id(self._generator) + object.__basicsize__, _TWISTER.size)
        self._signs = self._live[:16].cast("Q")  # the position, and the first words
        self._seen = (0, 0)
        self._state: Any = None
        self._gauss: Any = None
        state = self._generator.getstate()
        self.keep: Callable[[], None] = self._keep_words
        self._keep_words()
        if self._words() != state:
            self.keep = self._keep_whole
            self._keep_whole()

    def _keep_words(self) -> None:
        self._gauss = self._generator.gauss_next
        first, second = self._signs
        if first != self._seen[0] or second != self._seen[1]:
            self._seen = (first, second)
            self._state = self._live.tobytes()

    def _keep_whole(self) -> None:
        self._state = self._generator.getstate()

    def _words(self) -> Any:
        position, *words = _TWISTER.unpack(self._state)
        return (3, (*words, position), self._gauss)

    def put_back(self) -> None:
        """Sets the state that was kept last."""
        self._generator.setstate(self._words() if type(self._state) is bytes else self._state)


class NumpyRandom:
    """numpy's global generator."""

    def __init__(self, numpy_random: Any) -> None:
        self._random = numpy_random
        self._bits: Any = None
        self._live: Any = None
        self._signs: Any = None
        self._position: Any = None
        self._normal: Any = None
        self._seen = (-1, -1)
        self._state: Any = None
        self._normal_state = b""
        self.keep()

    def keep(self) -> None:
        """Keeps the state as it is now."""
        bits = self._random.mtrand._rand._bit_generator
        if bits is not self._bits:
            self._find(bits)
        if self._live is None:
            self._state = self._random.get_state()
            return
        self._normal_state = self._normal.tobytes()
        first, position = self._signs[0], self._position[0]
        if first != self._seen[0] or position != self._seen[1]:
            self._seen = (first, position)
            self._state = self._live.tobytes()

    def _find(self, bits: Any) -> None:
        """Learns where the words lie: of a generator, and of the normal that it holds back."""
        self._bits = bits
        self._live = None
        self._seen = (-1, -1)
        if type(bits).__name__ != "MT19937":
            return
        address = bits.ctypes.state_address
        held_back = _held_back_normal(self._random.mtrand._rand, address)
        if held_back is None:
            return
        live = _window(address, _NUMPY_TWISTER.size)
        self._normal = _window(held_back, 16)
        self._normal_state, self._state = self._normal.tobytes(), live.tobytes()
        if _same_numpy_state(self._words(), self._random.get_state()):
            self._live = live
            self._signs = live[:8].cast("Q")
            self._position = live[4 * _WORDS :].cast("i")

    def _words(self) -> Any:
        *words, position = _NUMPY_TWISTER.unpack(self._state)
        has_normal, normal = struct.unpack("i4xd", self._normal_state)
        return ("MT19937", words, position, has_normal, normal)

    def put_back(self) -> None:
        """Sets the state that was kept last."""
        self._random.set_state(self._words() if type(self._state) is bytes else self._state)


def _held_back_normal(state: Any, words_address: int) -> Optional[int]:
    """Where a `RandomState` keeps `has_gauss` and `gauss`: behind the pointer to its own copy of
    the generator's interface, which begins with the address of the words."""
    size = type(state).__basicsize__ // 8
    kind: Any = ctypes.c_uint64 * size
    fields = kind.from_address(id(state))
    for index in range(size - 2):
        target = fields[index] - id(state)
        if 0 < target < 8 * size and target % 8 == 0 and fields[target // 8] == words_address:
            return int(id(state) + 8 * (index + 1))
    return None


def _same_numpy_state(first: Any, second: Any) -> bool:
    # What `gauss` holds while there is none is of no account.
    return (
        list(first[1]) == second[1].tolist()
        and first[2:4] == second[2:4]
        and (not first[3] or first[4] == second[4])
    )


class TorchRandom:
    """A `torch.Generator` of any device."""

    def __init__(self, generator: Any) -> None:
        self._generator = generator
        self._state: Any = None
        self._signs: Any = None
        self._seen = (-1, -1, -1, -1)
        self.keep: Callable[[], None] = self._keep_state
        if generator.device.type == "cpu":
            self._signs = _torch_signs(generator)
            if self._signs is not None:
                self.keep = self._keep_changed
        elif generator.device.type == "cuda" and hasattr(generator, "get_offset"):
            self.keep = self._keep_offset
        self.keep()

    def _keep_state(self) -> None:
        self._state = self._generator.get_state()

    def _keep_changed(self) -> None:
        head, normals = self._signs
        # Position and first word; whether a normal is held back, of either type.
        seen = (head[0], head[1], normals[0], normals[3])
        if seen != self._seen:
            self._seen = seen
            self._state = self._generator.get_state()

    def _keep_offset(self) -> None:
        # On CUDA a state is a seed and an offset; as a tensor it would cost five times as much.
        generator = self._generator
        self._state = (generator.initial_seed(), generator.get_offset())

    def put_back(self) -> None:
        """Sets the state that was kept last."""
        if type(self._state) is tuple:
            self._generator.manual_seed(self._state[0])
            self._generator.set_offset(self._state[1])
        else:
            self._generator.set_state(self._state)
        self._seen = (-1, -1, -1, -1)


def _torch_signs(generator: Any) -> Any:
    """Where a CPU generator tells that it has changed; None where that cannot be found.

    The object holds seed, position and words in the order of torch's `mt19937`, and behind them the
    two normals held back. The words are looked for among its first bytes.
    """
    state = generator.get_state().numpy().tobytes()
    if len(state) != _TORCH_STATE_BYTES:
        return None
    left, seeded, following = struct.unpack_from("iiQ", state, 8)
    words = b"".join(state[24 + 8 * index : 28 + 8 * index] for index in range(_WORDS))
    raw = ctypes.string_at(generator._cdata, _TORCH_MAX_OFFSET + 4 * _WORDS)
    at = raw.find(words)
    if at < 12 or raw[at - 12 : at] != struct.pack("iiI", left, seeded, following):
        return None
    address = generator._cdata + at
    normals = _window(address + 4 * _WORDS, 32)
    return _window(address - 12, 16).cast("Q"), normals.cast("Q")


class NumpyGenerator:
    """A `numpy.random.Generator` or `RandomState` that the job made."""

    def __init__(self, generator: Any) -> None:
        self._bits = getattr(generator, "bit_generator", None) or generator._bit_generator
        self._state: Any = None
        self.keep()

    def keep(self) -> None:
        """Keeps the state as it is now."""
        self._state = self._bits.state

    def put_back(self) -> None:
        """Sets the state that was kept last."""
        self._bits.state = self._state


class RandomState:
    """Everything that is kept. Not for several threads: the generators are the process's own."""

    def __init__(self) -> None:
        self._sources: Dict[int, Any] = {}
        self._keeps: List[Callable[[], None]] = []
        self._modules = 0
        self._found = 0

    def keep(self) -> None:
        """Keeps the state as it is now: about 1 µs for random, numpy and torch on the CPU."""
        if len(sys.modules) != self._modules:
            self.look()
        for keep in self._keeps:
            keep()

    def put_back(self) -> None:
        """Sets every generator to what was kept last."""
        for source in self._sources.values():
            source.put_back()

    def look(self) -> None:
        """Looks for libraries and devices that came into use since."""
        self._modules = len(sys.modules)
        self._add(random, PythonRandom)
        numpy_random: Any = sys.modules.get("numpy.random")
        if hasattr(numpy_random, "mtrand"):
            self._add(numpy_random, NumpyRandom, numpy_random)
        torch: Any = sys.modules.get("torch")
        if hasattr(torch, "default_generator"):
            for generator in [torch.default_generator, *_accelerators(torch)]:
                self._add(generator, TorchRandom, generator)

    def watch(self, generators: List[Any]) -> None:
        """Keeps these from now on as well; those that are no generators are left out."""
        for generator in generators:
            if self._found >= MAX_GENERATORS or id(generator) in self._sources:
                continue
            module = type(generator).__module__
            if module.startswith("numpy.random"):
                kind: Any = NumpyGenerator
            elif isinstance(generator, random.Random):
                kind = PythonRandom
            elif module.startswith("torch"):
                kind = TorchRandom
            else:
                continue
            self._found += 1
            try:
                self._add(generator, kind, generator)
            except NotImplementedError:
                continue  # SystemRandom has no state

    def _add(self, key: Any, kind: Any, *args: Any) -> None:
        if id(key) not in self._sources:
            source = kind(*args)
            self._sources[id(key)] = source
            self._keeps.append(source.keep)


def _accelerators(torch: Any) -> List[Any]:
    generators: List[Any] = []
    cuda = getattr(torch, "cuda", None)
    if cuda is not None and cuda.is_initialized():
        generators.extend(cuda.default_generators)
    mps = sys.modules.get("torch.mps")
    if mps is not None and torch.backends.mps.is_available():
        generators.append(mps._get_default_mps_generator())
    return generators
