"""Real deaths of whole processes; argv[1] names the one to die of. The output is the log."""

import argparse
import os
import signal
import sys
import threading


def segmentation_fault() -> None:
    import ctypes
    import faulthandler

    faulthandler.enable()
    ctypes.string_at(0)


def abort() -> None:
    import faulthandler

    faulthandler.enable()
    os.abort()


def unknown_option() -> None:
    parser = argparse.ArgumentParser(prog="train.py")
    parser.add_argument("--lr", type=float)
    parser.parse_args(["--learning-rate", "0.1"])


def bad_value() -> None:
    parser = argparse.ArgumentParser(prog="train.py")
    parser.add_argument("--epochs", type=int)
    parser.parse_args(["--epochs", "ten"])


def syntax_error() -> None:
    exec(compile("loss = criterion(out, y\n", "/job/train.py", "exec"))


def interrupted() -> None:
    threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    signal.pause()


def in_a_thread() -> None:
    thread = threading.Thread(target=lambda: {}["batch"])
    thread.start()
    thread.join()


class Samples:
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> float:
        return {0: 0.5}[index]


class KilledSamples(Samples):
    def __getitem__(self, index: int) -> float:
        os.kill(os.getpid(), signal.SIGKILL)
        return 0.0


def data_loader_worker() -> None:
    from torch.utils.data import DataLoader

    for _ in DataLoader(Samples(), batch_size=2, num_workers=1):  # type: ignore[arg-type]
        pass


def killed_worker() -> None:
    from torch.utils.data import DataLoader

    for _ in DataLoader(KilledSamples(), batch_size=2, num_workers=1):  # type: ignore[arg-type]
        pass


def rank_of_spawn(rank: int) -> None:
    if rank == 1:
        raise ValueError("number of heads must be positive")


def spawned_rank() -> None:
    import torch.multiprocessing

    torch.multiprocessing.spawn(rank_of_spawn, nprocs=2)


CASES = {
    "segmentation_fault": "native_crash",
    "abort": "native_crash",
    "unknown_option": "illegal_argument",
    "bad_value": "illegal_argument",
    "syntax_error": "syntax_error",
    "interrupted": "user_cancelled",
    "in_a_thread": "key_not_found",
    "data_loader_worker": "key_not_found",
    "killed_worker": "cpu_out_of_memory",
    "spawned_rank": "illegal_argument",
}

if __name__ == "__main__":
    globals()[sys.argv[1]]()
