"""Real crashes of torch, numpy, scikit-learn and Python: each prints its traceback to a file.

    in_process.py FOLDER

One process for all of them, since importing torch takes longer than everything else together.
"""

import json
import math
import pickle
import sys
import traceback
import zipfile
from pathlib import Path
from typing import Callable, Dict, Tuple

import numpy
import torch
from sklearn.linear_model import LogisticRegression
from torch import nn

CASES: Dict[str, Tuple[str, Callable[[], object]]] = {}


def case(category: str) -> Callable[[Callable[[], object]], Callable[[], object]]:
    def add(function: Callable[[], object]) -> Callable[[], object]:
        CASES[function.__name__] = (category, function)
        return function

    return add


@case("tensor_mismatch")
def linear_of_wrong_width() -> object:
    return nn.Linear(8, 2)(torch.zeros(4, 7))


@case("tensor_mismatch")
def add_of_wrong_shapes() -> object:
    return torch.zeros(4, 3) + torch.zeros(4, 5)


@case("tensor_mismatch")
def numpy_broadcast() -> object:
    return numpy.zeros((4, 3)) + numpy.zeros((4, 5))


@case("tensor_mismatch")
def reshape_of_wrong_size() -> object:
    return torch.zeros(10).view(3, 4)


@case("tensor_mismatch")
def numpy_reshape_of_wrong_size() -> object:
    return numpy.zeros(10).reshape(3, 4)


@case("tensor_mismatch")
def concatenation_of_wrong_sizes() -> object:
    return torch.cat([torch.zeros(2, 3), torch.zeros(2, 4)])


@case("tensor_mismatch")
def stack_of_wrong_sizes() -> object:
    return torch.stack([torch.zeros(2), torch.zeros(3)])


@case("tensor_mismatch")
def state_of_another_model() -> object:
    return nn.Linear(4, 2).load_state_dict(nn.Linear(4, 3).state_dict())


@case("tensor_mismatch")
def state_with_missing_keys() -> object:
    return nn.Linear(4, 2).load_state_dict({})


@case("tensor_mismatch")
def convolution_of_wrong_channels() -> object:
    return nn.Conv2d(3, 8, 3)(torch.zeros(1, 1, 9, 9))


@case("tensor_mismatch")
def loss_of_wrong_batch() -> object:
    return nn.CrossEntropyLoss()(torch.zeros(4, 3), torch.zeros(5, dtype=torch.long))


@case("tensor_mismatch")
def samples_without_labels() -> object:
    return LogisticRegression().fit(numpy.zeros((4, 2)), numpy.zeros(3))


@case("type_mismatch")
def half_times_float() -> object:
    return torch.zeros(2, 2, dtype=torch.half) @ torch.zeros(2, 2)


@case("type_mismatch")
def text_plus_number() -> object:
    return "epoch " + 3  # type: ignore[operator]


@case("type_mismatch")
def list_as_key() -> object:
    return {[1]: 2}  # type: ignore[misc]


@case("index_out_of_bounds")
def list_index() -> object:
    values = [1, 2]
    return values[len(values) + 3]


@case("index_out_of_bounds")
def target_of_no_class() -> object:
    return nn.CrossEntropyLoss()(torch.zeros(4, 3), torch.tensor([0, 1, 2, 7]))


@case("index_out_of_bounds")
def token_of_no_row() -> object:
    return nn.Embedding(10, 4)(torch.tensor([3, 10]))


@case("index_out_of_bounds")
def numpy_index() -> object:
    return numpy.zeros(3)[7]


@case("key_not_found")
def dictionary_key() -> object:
    return {"lr": 0.1}["rate"]


@case("attribute_not_found")
def module_attribute() -> object:
    return nn.Linear(2, 2).wieght


@case("attribute_not_found")
def numpy_attribute() -> object:
    return numpy.floaty  # type: ignore[attr-defined]


@case("null_reference")
def attribute_of_none() -> object:
    nothing = {"image": None}["image"]
    return nothing.shape  # type: ignore[attr-defined]


@case("null_reference")
def item_of_none() -> object:
    nothing = {"image": None}["image"]
    return nothing[0]  # type: ignore[index]


@case("undefined_variable")
def unknown_name() -> object:
    return avg_los  # type: ignore[name-defined]  # noqa: F821


@case("division_by_zero")
def mean_of_nothing() -> object:
    return sum([]) / len([])


@case("overflow")
def exponential() -> object:
    return math.exp(1e6)


@case("recursion_limit")
def endless_recursion() -> object:
    return endless_recursion()


@case("assertion_failure")
def assertion() -> object:
    assert len([1]) == 2, "two devices are needed"
    return None


@case("not_implemented")
def abstract_forward() -> object:
    return nn.Module()(torch.zeros(1))


@case("path_not_found")
def missing_file() -> object:
    return open("/no/such/folder/val.lst")


@case("path_not_found")
def missing_checkpoint() -> object:
    return torch.load("/no/such/checkpoint.pt")


@case("path_not_found")
def missing_array() -> object:
    return numpy.load("/no/such/array.npy")


@case("library_not_found")
def missing_module() -> object:
    import apex_of_nowhere  # type: ignore[import-not-found]

    return apex_of_nowhere


@case("library_not_found")
def missing_name() -> object:
    from torch.optim import AdamX  # type: ignore[attr-defined]

    return AdamX


@case("library_not_found")
def missing_shared_library() -> object:
    import ctypes

    return ctypes.CDLL("libnothing.so.9")


@case("illegal_argument")
def unknown_keyword() -> object:
    return torch.optim.SGD([torch.zeros(1)], learning_rate=1.0)  # type: ignore[call-arg]


@case("illegal_argument")
def negative_rate() -> object:
    return torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=-1.0)


@case("illegal_argument")
def empty_data_set() -> object:
    return torch.utils.data.DataLoader([], batch_size=2, shuffle=True)


@case("illegal_argument")
def unknown_solver() -> object:
    return LogisticRegression(solver="newton").fit(numpy.zeros((4, 2)), [0, 1, 0, 1])


@case("illegal_argument")
def call_with_too_few() -> object:
    return nn.Linear(3)  # type: ignore[call-arg]


@case("framework_api_misuse")
def second_backward() -> object:
    x = torch.ones(2, requires_grad=True)
    y = (x * x).sum()
    y.backward()
    return y.backward()


@case("framework_api_misuse")
def gradient_of_a_vector() -> object:
    return (torch.ones(2, requires_grad=True) * 2).backward()


@case("framework_api_misuse")
def in_place_on_a_leaf() -> object:
    return torch.ones(2, requires_grad=True).add_(1)


@case("framework_api_misuse")
def numpy_of_a_gradient() -> object:
    return torch.ones(2, requires_grad=True).numpy()


@case("framework_api_misuse")
def truth_of_a_tensor() -> object:
    return bool(torch.zeros(3) > 1)


@case("framework_api_misuse")
def unfitted_model() -> object:
    return LogisticRegression().predict(numpy.zeros((2, 2)))


@case("framework_api_misuse")
def no_process_group() -> object:
    return torch.distributed.all_reduce(torch.zeros(1))


@case("gpu_unavailable")
def no_device() -> object:
    return torch.zeros(1).cuda()


@case("cpu_out_of_memory")
def too_large_array() -> object:
    return numpy.ones((1 << 20, 1 << 24))


@case("cpu_out_of_memory")
def too_large_tensor() -> object:
    return torch.ones(1 << 20, 1 << 24)


@case("loss_nan")
def anomaly() -> object:
    with torch.autograd.detect_anomaly(check_nan=True):
        x = torch.zeros(1, requires_grad=True)
        return (torch.sqrt(x) * 0).sum().backward()


@case("loss_nan")
def nan_in_the_input() -> object:
    return LogisticRegression().fit([[float("nan")], [1.0]], [0, 1])


@case("corrupt_data")
def cut_json() -> object:
    return json.loads('{"lr": 0.1, ')


@case("corrupt_data")
def cut_pickle() -> object:
    return pickle.loads(pickle.dumps(list(range(100)))[:40])


@case("corrupt_data")
def no_checkpoint() -> object:
    path = Path(sys.argv[1]) / "broken.pt"
    path.write_bytes(b"PK\x03\x04" + b"\0" * 200)
    return torch.load(path)


@case("corrupt_data")
def no_archive() -> object:
    path = Path(sys.argv[1]) / "broken.zip"
    path.write_bytes(b"not a zip file")
    return zipfile.ZipFile(path)


@case("unexpected_encoding")
def not_ascii() -> object:
    return "Größe".encode().decode("ascii")


@case("filesystem_race")
def made_twice() -> object:
    folder = Path(sys.argv[1]) / "twice"
    folder.mkdir(exist_ok=True)
    return folder.mkdir()


@case("disk_full")
def full_device() -> object:
    with open("/dev/full", "w") as file:
        file.write("x" * (1 << 20))
    return None


@case("network")
def nobody_listens() -> object:
    import urllib.request

    return urllib.request.urlopen("http://127.0.0.1:9/weights.pt", timeout=5)


@case("port_in_use")
def taken_port() -> object:
    import socket

    first = socket.socket()
    first.bind(("127.0.0.1", 0))
    return socket.socket().bind(first.getsockname())


def main() -> int:
    folder = Path(sys.argv[1])
    for name, (_, function) in CASES.items():
        with open(folder / f"{name}.log", "w", encoding="utf-8") as log:
            print("step 1 loss 0.5", file=log)
            try:
                function()
            except BaseException:
                traceback.print_exc(file=log)
    (folder / "categories.json").write_text(json.dumps({n: c for n, (c, _) in CASES.items()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
