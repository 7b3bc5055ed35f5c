"""The random state of the process: kept at each iteration, put back when one is run again.

Kept are Python's `random`, numpy's global generator, torch's generators of the CPU and of each
accelerator in use, and the generators that project frames hold in variables (found.py). To ask for
these states costs 8, 32 and 5 µs. So the gate (gate.py) copies them where they lie, and only those
that have moved. That the right bytes are read is proved once against the public functions; where
not, those are asked.
"""

from __future__ import annotations

import ctypes
import random
import struct
import sys
from typing import Any, Callable, Dict, List, Optional, Protocol, Tuple

from paramedic.recovery.crash import Refused
from paramedic.recovery.gate import Gate, Value, kept

# Of project frames; more than these are a list of generators, one for each sample or so.
MAX_GENERATORS = 8
_WORDS = 624  # of a Mersenne twister's state
_TWISTER = struct.Struct(f"i{_WORDS}I")  # Python: the position, then the words
_NUMPY_TWISTER = struct.Struct(f"{_WORDS}Ii")  # numpy: the words, then the position
_NUMPY_NORMAL = struct.Struct("i4xd")  # whether a normal is held back, and which
# torch: seed, words left, whether seeded, the next word; words; normals held back with whether.
_TORCH = struct.Struct(f"=Qi?3xI{_WORDS}I4xf?3xd?7x")
# What torch answers: the same, and numbers that older versions had.
_TORCH_STATE = struct.Struct(f"=QiiQ{_WORDS}Q8xd8xi4xf?3x")
_TORCH_MAX_OFFSET = 160  # of the words in a generator of torch
_TORCH_WORDS_AT = 20


class Pieces(Protocol):
    """A gate, or what else keeps bytes natively."""

    def piece(self, address: int, size: int) -> Optional[memoryview]:
        """Keeps them from now on; answers where."""


class PythonRandom:
    """A `random.Random`; the module's own by default."""

    def __init__(self, gate: Optional[Gate], generator: Any = None) -> None:
        module: Any = random
        self._generator: Any = module.random.__self__ if generator is None else generator
        self._live: Optional[memoryview] = None
        self._gauss: Optional[Value] = None
        self._state = self._generator.getstate()
        address = id(self._generator) + object.__basicsize__
        now = ctypes.string_at(address, _TWISTER.size)
        if gate is not None and self._words(now, self._generator.gauss_next) == self._state:
            self._gauss = gate.value(self._generator, "gauss_next")
            if self._gauss is not None:
                self._live = gate.piece(address, _TWISTER.size)
        self.is_native = self._live is not None

    @staticmethod
    def _words(state: Any, gauss: Any) -> Any:
        position, *words = _TWISTER.unpack(state)
        return (3, (*words, position), gauss)

    def keep(self) -> None:
        """Keeps the state as it is now, where the gate does not."""
        self._state = self._generator.getstate()

    def put_back(self) -> None:
        """Sets the state that was kept last."""
        if self._live is not None and self._gauss is not None:
            self._state = self._words(self._live, kept(self._gauss))
        self._generator.setstate(self._state)


class NumpyRandom:
    """numpy's global generator."""

    def __init__(self, gate: Optional[Gate], numpy_random: Any) -> None:
        self._random = numpy_random
        self._bits = numpy_random.mtrand._rand._bit_generator
        self._live: Optional[memoryview] = None
        self._normal: Optional[memoryview] = None
        self._state = numpy_random.get_state()
        if gate is not None and type(self._bits).__name__ == "MT19937":
            address = self._bits.ctypes.state_address
            normal = _held_back_normal(numpy_random.mtrand._rand, address)
            if normal is not None:
                now = self._words(
                    ctypes.string_at(address, _NUMPY_TWISTER.size),
                    ctypes.string_at(normal, _NUMPY_NORMAL.size),
                )
                if _same_numpy_state(now, self._state):
                    self._normal = gate.piece(normal, _NUMPY_NORMAL.size)
                    self._live = gate.piece(address, _NUMPY_TWISTER.size)
        self.is_native = self._live is not None

    @staticmethod
    def _words(state: Any, normal_state: Any) -> Any:
        *words, position = _NUMPY_TWISTER.unpack(state)
        has_normal, normal = _NUMPY_NORMAL.unpack(normal_state)
        return ("MT19937", words, position, has_normal, normal)

    def keep(self) -> None:
        """Keeps the state as it is now, where the gate does not."""
        self._bits = self._random.mtrand._rand._bit_generator
        self._state = self._random.get_state()

    def check(self) -> None:
        """Raises Refused where `put_back` would not be exact."""
        if self._bits is not self._random.mtrand._rand._bit_generator:
            raise Refused("numpy's generator of random numbers is another one now")

    def put_back(self) -> None:
        """Sets the state that was kept last."""
        if self._live is not None:
            self._state = self._words(self._live, self._normal)
        self._random.set_state(self._state)


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

    def __init__(self, gate: Optional[Pieces], generator: Any) -> None:
        self._generator = generator
        self._live: Optional[memoryview] = None
        self._state: Any = None
        self._offset: Optional[Tuple[int, int]] = None
        device = generator.device.type
        # On CUDA a state is a seed and an offset; as a tensor it would cost five times as much.
        self._has_offset = device == "cuda" and hasattr(generator, "get_offset")
        place = _torch_place(type(generator)) if device == "cpu" else None
        if gate is not None and place is not None:
            self._live = gate.piece(generator._cdata + place, _TORCH.size)
        self.is_native = self._live is not None
        if not self.is_native:
            self.keep()

    def keep(self) -> None:
        """Keeps the state as it is now, where the gate does not."""
        if self._has_offset:
            self._offset = (self._generator.initial_seed(), self._generator.get_offset())
        else:
            self._state = self._generator.get_state()

    def state(self) -> Any:
        """What was kept last, as `get_state` has it; None for one that has a seed and an offset."""
        if self._live is not None:
            return _torch_state(self._live)
        return self._state

    def put_back(self) -> None:
        """Sets the state that was kept last."""
        if self._offset is not None:
            self._generator.manual_seed(self._offset[0])
            self._generator.set_offset(self._offset[1])
        else:
            self._generator.set_state(self.state())


def _torch_state(raw: Any) -> Any:
    torch: Any = sys.modules["torch"]
    seed, left, seeded, following, *rest = _TORCH.unpack(raw)
    words, (single, has_single, double, has_double) = rest[:_WORDS], rest[_WORDS:]
    held_back = (double if has_double else 0.0, has_double)
    state = _TORCH_STATE.pack(
        seed, left, seeded, following, *words, *held_back, single if has_single else 0.0, has_single
    )
    return torch.frombuffer(bytearray(state), dtype=torch.uint8)


_torch_places: Dict[Any, Optional[int]] = {}


def _torch_place(kind: Any) -> Optional[int]:
    """How far from its address a CPU generator of torch keeps its state; None: not found.

    Found and proved with a generator of our own, also while a normal is held back.
    """
    if kind not in _torch_places:
        _torch_places[kind] = _find_torch_place(kind)
    return _torch_places[kind]


def _find_torch_place(kind: Any) -> Optional[int]:
    torch: Any = sys.modules["torch"]
    generator = kind()
    generator.manual_seed(7)
    state = generator.get_state().numpy().tobytes()
    if len(state) != _TORCH_STATE.size:
        return None
    words = struct.pack(f"{_WORDS}I", *_TORCH_STATE.unpack(state)[4 : 4 + _WORDS])
    place = ctypes.string_at(generator._cdata, _TORCH_MAX_OFFSET + len(words)).find(words)
    place -= _TORCH_WORDS_AT
    if place < 0:
        return None
    for dtype in (torch.float64, torch.float32, torch.float64):
        raw = ctypes.string_at(generator._cdata + place, _TORCH.size)
        if not torch.equal(_torch_state(raw), generator.get_state()):
            return None
        torch.randn(1, dtype=dtype, generator=generator)
    return place


class NumpyGenerator:
    """A `numpy.random.Generator` or `RandomState` that the job made."""

    is_native = False

    def __init__(self, gate: Optional[Gate], generator: Any) -> None:
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

    def __init__(self, gate: Optional[Gate] = None) -> None:
        """With a gate it keeps the state at each mark, else `keep` does when it is called."""
        self._gate = gate
        self._sources: Dict[int, Any] = {}
        # Of those that the gate does not keep: to be called at each mark.
        self.keeps: List[Callable[[], None]] = []
        self._found = 0

    def keep(self) -> None:
        """Keeps what the gate does not, as it is now."""
        self.look()
        for keep in self.keeps:
            keep()

    def torch_state(self) -> Any:
        """That of torch's generator of the CPU at the mark; None where there is none."""
        torch: Any = sys.modules["torch"]
        source = self._sources.get(id(torch.default_generator))
        return None if source is None else source.state()

    def check(self) -> None:
        """Raises Refused where `put_back` would not be exact."""
        for source in self._sources.values():
            if isinstance(source, NumpyRandom):
                source.check()
        torch: Any = sys.modules.get("torch")
        devices = _accelerators(torch) if hasattr(torch, "default_generator") else []
        if any(id(generator) not in self._sources for generator in devices):
            raise Refused("a device came into use whose random numbers are not kept yet")

    def put_back(self) -> None:
        """Sets every generator to what was kept last."""
        for source in self._sources.values():
            source.put_back()

    def look(self) -> None:
        """Looks for libraries and devices that came into use since."""
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
            source = kind(self._gate, *args)
            self._sources[id(key)] = source
            if not source.is_native:
                self.keeps.append(source.keep)


def _accelerators(torch: Any) -> List[Any]:
    generators: List[Any] = []
    cuda = getattr(torch, "cuda", None)
    if cuda is not None and cuda.is_initialized():
        generators.extend(cuda.default_generators)
    mps = sys.modules.get("torch.mps")
    if mps is not None and torch.backends.mps.is_available():
        generators.append(mps._get_default_mps_generator())
    return generators
