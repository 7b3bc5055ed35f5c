"""An exception that somebody up the stack handles is no crash; one that nobody handles is."""

from pathlib import Path
from typing import Dict, Type

import pytest
from crashing import Flaky, run
from programs_left_alone import LEFT_ALONE

# Each calls flaky() once where nobody handles what it raises.
CRASHES: Dict[str, str] = {
    "another_type_is_handled": """
        def f():
            try: return flaky()
            except KeyError: return 0
        result = f()
    """,
    "a_handler_that_raises_it_again": """
        def f(): return flaky()
        def g():
            try: return f()
            except OSError: raise
        result = g()
    """,
    "a_clause_that_gives_back_what_it_cannot_mend": """
        def f(): return flaky()
        def g():
            for attempt in range(3):
                try:
                    return f()
                except OSError as error:
                    if "out of memory" in str(error):
                        continue
                    else:
                        raise error
        def h():
            try: return g()
            except (KeyError, OSError) as error:
                if not isinstance(error, OSError) or error.errno == 28: return 0
                print("failed", error)
                raise ValueError("it failed") from error
        result = h()
    """,
    "a_manager_that_swallows_others": """
        class Quiet:
            def __enter__(self): return self
            def __exit__(self, kind, value, trace):
                if kind is KeyError: return True
                return "full" in str(value)
        def f(): return flaky()
        def g():
            with Quiet(): return f()
        result = g()
    """,
    "the_last_of_some_attempts": """
        def f(): return flaky()
        def g(attempts):
            for attempt in range(attempts):
                try: return f()
                except OSError:
                    if attempt == attempts - 1: raise
        result = g(1)
    """,
    "a_clean_up_of_an_exit_stack": """
        import contextlib
        log = []
        def clean(): log.append(flaky())
        with contextlib.ExitStack() as stack:
            stack.callback(log.append, 2)
            stack.callback(clean)
        result = log
    """,
    "suppress_of_another_type": """
        import contextlib
        with contextlib.suppress(KeyError): result = flaky()
    """,
    "a_manager_that_swallows_nothing": """
        import contextlib, tempfile
        @contextlib.contextmanager
        def around():
            yield
        class Plain:
            def __enter__(self): return self
            def __exit__(self, *error): self.left = True
        with around(), Plain(), tempfile.TemporaryFile(), contextlib.ExitStack():
            result = flaky()
    """,
    "a_library_that_only_passes_it_on": """
        import functools, threading, contextlib
        @functools.lru_cache
        def f(x): return flaky()
        @contextlib.contextmanager
        def around(): yield
        @around()
        def g(): return f(1)
        result = sorted([1], key=lambda x: g())
    """,
    "an_index_error_that_is_no_protocol": """
        class Items:
            def __getitem__(self, i):
                if flaky_as(IndexError): return 1
        items = Items()
        def f(): return items[3]
        result = f()
    """,
    "an_attribute_error_that_nobody_expects": """
        class A:
            @property
            def shown(self): return flaky_as(AttributeError)
        result = A().shown
    """,
    "attributes_that_must_be_there": """
        class A:
            @property
            def first(self): return flaky_as(AttributeError)
        def f(a): return getattr(a, "first")
        result = f(A())
    """,
    "results_of_a_pool": """
        from concurrent.futures import ThreadPoolExecutor
        def f(x): return flaky()
        with ThreadPoolExecutor(1) as pool:
            result = list(pool.map(f, [1]))
    """,
    "managers_of_libraries": """
        import torch, torch.utils.checkpoint, warnings
        @torch.no_grad()
        def f():
            with warnings.catch_warnings(), torch.random.fork_rng(), torch.autocast("cpu"):
                return flaky()
        @torch.inference_mode()
        def g(): return torch.utils.checkpoint.checkpoint(lambda: f(), use_reentrant=False)
        result = g()
    """,
    "the_main_coroutine": """
        import asyncio
        async def inner(): return flaky()
        async def main():
            await asyncio.sleep(0)
            return await inner()
        result = asyncio.run(main())
    """,
    "a_thread": """
        import threading
        box = []
        thread = threading.Thread(target=lambda: work())
        def work(): box.append(flaky())
        thread.start()
        thread.join()
        result = box
    """,
}


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_a_handled_exception_is_left_alone(tmp_path: Path, name: str) -> None:
    plain, _ = run(tmp_path, LEFT_ALONE[name], transform=False)
    spaces, decider = run(tmp_path, LEFT_ALONE[name])
    assert decider.where == []
    assert spaces["result"] == plain["result"]


@pytest.mark.parametrize("name", CRASHES)
def test_an_exception_that_nobody_handles_is_a_crash(tmp_path: Path, name: str) -> None:
    def flaky_as(kind: Type[Exception]) -> int:
        try:
            return flaky()
        except OSError:
            raise kind from None

    flaky = Flaky()
    steady = {"flaky": lambda: 1, "flaky_as": lambda kind: 1}
    plain, _ = run(tmp_path, CRASHES[name], transform=False, **steady)
    spaces, decider = run(tmp_path, CRASHES[name], flaky=flaky, flaky_as=flaky_as)
    assert len(decider.where) == 1
    assert spaces["result"] == plain["result"]
