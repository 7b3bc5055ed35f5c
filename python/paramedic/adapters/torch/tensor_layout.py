"""Where this torch keeps what native functions read of a tensor.

To ask a tensor's object for its type and address executes 500 instructions, which are in no cache
between two operations of torch. Read where it lies it takes ten. No layout of any version is known
here: each place is found by tensors whose contents are known, differ in one thing, and are alive
meanwhile; one that is not found, or found twice, is an error. A place is read in objects that torch
has given the address of, or that such an object holds.
"""

import ctypes
import struct
from typing import Any, Callable, List, Sequence

_TENSOR_BYTES = 184  # of c10::TensorImpl, at least
_STORAGE_BYTES = 40  # of c10::StorageImpl, up to the end of its address and context
_AUTOGRAD_BYTES = 56  # of torch::autograd::AutogradMeta: a name, then the gradient
_BASE = 7000  # elements
_OFFSETS = (1234, 2345, 3456)
# With fewer dimensions a tensor leaves places unset, and what lies there, as behind its end, may
# look like what is sought by chance: what is found is found in several rounds of tensors.
_SHAPE = (1, 1, 1, 1, 3)
_ROUNDS = 4


class Layout(ctypes.Structure):
    """paramedic_tensor_layout."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("in_object", "keys", "type", "storage", "offset")),
        *((name, ctypes.c_int64) for name in ("autograd", "data", "gradient")),
        *((name, ctypes.c_uint64) for name in ("plain_keys", "float32", "no_tensor")),
    ]


def find(torch: Any) -> Layout:
    """The layout of plain tensors on the CPU.

    Raises:
        OSError: it was not found; or is not what data_ptr() and .grad say.
    """
    try:
        layout = _find(torch)
        _prove(torch, layout)
    except Exception as error:
        raise OSError(f"where tensors lie was not found: {error!r}") from error
    return layout


def _find(torch: Any) -> Layout:
    layout = Layout()
    bases = [torch.empty(_BASE, dtype=torch.float32, device="cpu") for _ in _OFFSETS]
    views = [base[offset:].view(1, 1, 1, 1, -1) for base, offset in zip(bases, _OFFSETS)]
    kind = torch.Tensor.__basicsize__
    layout.in_object = _place_of(
        [ctypes.string_at(id(view), kind) for view in views], [view._cdata for view in views]
    )
    tensors = [_bytes_of(view) for view in views]
    storages = [view.untyped_storage() for view in views]
    layout.storage = _place_of(tensors, [storage._cdata for storage in storages])
    layout.offset = _place_of(tensors, _OFFSETS)
    # Memory of another owner: there the address is not the context of its deleter as well.
    buffer = bytearray(64)
    borrowed = torch.frombuffer(buffer, dtype=torch.float32).untyped_storage()
    layout.data = _place_of(
        [ctypes.string_at(s._cdata, _STORAGE_BYTES) for s in (borrowed, *storages)],
        [s.data_ptr() for s in (borrowed, *storages)],
    )
    _find_type(torch, layout)
    _find_keys(torch, layout)
    _find_gradient(torch, layout)
    return layout


def _bytes_of(tensor: Any) -> bytes:
    return ctypes.string_at(tensor._cdata, _TENSOR_BYTES)


def _only(places: Sequence[int]) -> int:
    (place,) = places
    return place


def _places(size: int, width: int, fits: Callable[[int], bool]) -> List[int]:
    return [at for at in range(0, size - width + 1, width) if fits(at)]


def _changed(before: bytes, after: bytes) -> List[int]:
    return _places(len(before), 8, lambda at: _word(before, at) != _word(after, at))


def _place_of(objects: Sequence[bytes], words: Sequence[int]) -> int:
    """Where each of the objects has its word."""
    size = len(objects[0]) // 8 * 8
    return _only(
        _places(size, 8, lambda at: all(_word(o, at) == w for o, w in zip(objects, words)))
    )


def _word(raw: bytes, at: int) -> int:
    return int(struct.unpack_from("=Q", raw, at)[0])


def _find_type(torch: Any, layout: Layout) -> None:
    types = (torch.float32, torch.float64, torch.float16, torch.int64, torch.uint8)
    # By turns, so that those of one type do not lie together.
    made = [
        [torch.empty(_SHAPE, dtype=dtype, device="cpu") for dtype in types] for _ in range(_ROUNDS)
    ]
    rows = [[_bytes_of(tensor) for tensor in row] for row in made]

    def fits(at: int) -> bool:
        numbers = [[struct.unpack_from("=H", raw, at)[0] for raw in row] for row in rows]
        return len(set(numbers[0])) == len(types) and all(row == numbers[0] for row in numbers)

    layout.type = _only(_places(_TENSOR_BYTES, 2, fits))
    layout.float32 = struct.unpack_from("=H", rows[0][0], layout.type)[0]


def _find_keys(torch: Any, layout: Layout) -> None:
    made = [_kinds(torch) for _ in range(_ROUNDS)]
    # Of each kind those of all rounds.
    kinds = [[_bytes_of(tensor) for some in kind for tensor in some] for kind in zip(*made)]

    def fits(at: int) -> bool:
        words = [{_word(raw, at) for raw in kind} for kind in kinds]
        # One of each kind, and no two of them the same.
        return all(len(some) == 1 for some in words) and len(set().union(*words)) == len(kinds)

    layout.keys = _only(_places(_TENSOR_BYTES, 8, fits))
    layout.plain_keys = _word(kinds[0][0], layout.keys)


def _kinds(torch: Any) -> List[List[Any]]:
    """Tensors whose dispatch keys are the same in each list: plain ones, then others."""
    plain = [
        torch.empty(_SHAPE, dtype=torch.float32, device="cpu"),
        torch.empty((), dtype=torch.float64, device="cpu"),
        torch.empty((2, 4), dtype=torch.int64, device="cpu")[1:],
        torch.empty(_SHAPE, dtype=torch.float32, device="cpu").requires_grad_(),
        torch.nn.Parameter(torch.empty(_SHAPE, dtype=torch.float32, device="cpu")),
    ]
    with torch.inference_mode():
        inference = torch.empty(_SHAPE, dtype=torch.float32, device="cpu")
    meta = torch.empty(_SHAPE, dtype=torch.float32, device="meta")
    return [plain, [inference], [meta], [torch._neg_view(plain[0])]]


def _find_gradient(torch: Any, layout: Layout) -> None:
    leaf = torch.empty(3, dtype=torch.float32, device="cpu")
    before = _bytes_of(leaf)
    leaf.requires_grad_()
    after = _bytes_of(leaf)
    # What changes is that autograd has something to keep of it now.
    layout.autograd = _only(_changed(before, after))
    if _word(before, layout.autograd):
        raise ValueError("autograd kept something of a tensor without gradient")
    kept = _word(after, layout.autograd)
    without = ctypes.string_at(kept, _AUTOGRAD_BYTES)
    leaf.grad = gradient = torch.empty(3, dtype=torch.float32, device="cpu")
    having = ctypes.string_at(kept, _AUTOGRAD_BYTES)
    layout.gradient = _only(_changed(without, having))
    if _word(having, layout.gradient) != gradient._cdata:
        raise ValueError("what changed with a gradient is not its address")
    layout.no_tensor = _word(without, layout.gradient)


def _prove(torch: Any, layout: Layout) -> None:
    """Reads as the native functions do."""
    weight = torch.nn.Parameter(torch.empty((5, 3), dtype=torch.float32, device="cpu"))
    if _gradient_of(layout, weight) != layout.no_tensor:
        raise ValueError("a weight without gradient has one")
    base = torch.empty((9, 3), dtype=torch.float32, device="cpu")
    for tensor in (weight, base, base[4:], base[3, 1:]):
        if _address_of(layout, tensor._cdata) != tensor.data_ptr():
            raise ValueError("a tensor lies elsewhere")
    weight.grad = base[2:7]
    if _address_of(layout, _gradient_of(layout, weight)) != weight.grad.data_ptr():
        raise ValueError("a gradient lies elsewhere")
    weight.grad = None
    if _gradient_of(layout, weight) != layout.no_tensor:
        raise ValueError("a gradient that is gone is still there")


def _gradient_of(layout: Layout, weight: Any) -> int:
    tensor = _word(ctypes.string_at(id(weight) + layout.in_object, 8), 0)
    kept = _word(ctypes.string_at(tensor + layout.autograd, 8), 0)
    return _word(ctypes.string_at(kept + layout.gradient, 8), 0)


def _address_of(layout: Layout, tensor: int) -> int:
    raw = ctypes.string_at(tensor, _TENSOR_BYTES)
    if _word(raw, layout.keys) != layout.plain_keys:
        raise ValueError("a plain tensor has other dispatch keys")
    if struct.unpack_from("=H", raw, layout.type)[0] != layout.float32:
        raise ValueError("float32 has another number")
    data = _word(ctypes.string_at(_word(raw, layout.storage) + layout.data, 8), 0)
    return data + 4 * _word(raw, layout.offset)
