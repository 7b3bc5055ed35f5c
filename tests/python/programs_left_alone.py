"""Programs whose exceptions are handled: recovery must not notice them."""

from typing import Dict

# Each raises, and somebody handles it; the Decider must not be asked.
LEFT_ALONE: Dict[str, str] = {
    "except_in_a_caller": """
        def f(): return {}["x"]
        def g(): return f()
        try: g()
        except (TypeError, KeyError): result = 1
    """,
    "except_behind_finally_and_with": """
        import threading
        lock = threading.Lock()
        def f():
            with lock:
                try: return {}["x"]
                finally: pass
        try: f()
        except LookupError: result = 1
    """,
    "except_of_a_name_that_is_a_local": """
        def f(kind):
            try: g()
            except kind: return 1
        def g(): raise KeyError
        result = f(KeyError)
    """,
    "a_bare_except": """
        def f(): raise KeyError
        try: f()
        except: result = 1
    """,
    "queue_empty": """
        import queue
        q = queue.Queue()
        def pull(): return q.get_nowait()
        def f():
            while True:
                try: pull()
                except queue.Empty: return 1
        result = f()
    """,
    "suppress": """
        import contextlib
        def f(): raise FileNotFoundError
        with contextlib.suppress(OSError): f()
        with contextlib.ExitStack() as stack:
            stack.enter_context(contextlib.suppress(OSError))
            f()
        result = 1
    """,
    "a_manager_of_the_project_that_swallows": """
        import contextlib
        class Quiet:
            def __enter__(self): return self
            def __exit__(self, kind, value, trace): return kind is KeyError
        @contextlib.contextmanager
        def also_quiet():
            try: yield
            except KeyError: pass
        def f(): raise KeyError
        with Quiet(): f()
        with also_quiet(): f()
        @also_quiet()
        def g(): f()
        g()
        result = 1
    """,
    "a_manager_that_swallows_some": """
        class Quiet:
            quiet = True
            def __enter__(self): return self
            def __exit__(self, kind, value, trace):
                if kind is KeyError: return self.quiet
                if kind is not None and issubclass(kind, OSError):
                    return "full" in str(value)
                return False
        def f(error): raise error
        with Quiet(): f(KeyError(1))
        with Quiet(): f(OSError("disk full"))
        result = 1
    """,
    "pytest_raises_and_unittest": """
        import unittest, pytest
        def f(): raise KeyError
        with pytest.raises(KeyError): f()
        with unittest.TestCase().assertRaises(KeyError): f()
        result = 1
    """,
    "tests_that_fail": """
        import io, unittest
        class Tests(unittest.TestCase):
            def test_that_fails(self): self.assertEqual(1, 2)
            def test_that_breaks(self): f()
            def test_in_parts(self):
                with self.subTest(part=1): f()
                with self.subTest(part=2): self.fail("no")
            def test_that_is_skipped(self): self.skipTest("not here")
        def f(): raise KeyError
        tests = unittest.defaultTestLoader.loadTestsFromTestCase(Tests)
        ended = unittest.TextTestRunner(stream=io.StringIO()).run(tests)
        result = len(ended.errors), len(ended.failures), len(ended.skipped)
    """,
    "a_library_that_tries_again": """
        import os, sys, textwrap
        folder = os.path.join(os.path.dirname(__file__), "a_library")
        os.makedirs(folder, exist_ok=True)
        open(os.path.join(folder, "trying.py"), "w").write(textwrap.dedent('''
            import contextlib
            class Attempt:
                def __init__(self, log): self.log = log
                def __enter__(self): return self
                def __exit__(self, kind, value, trace):
                    self.log.append(kind)
                    return kind is not None
            def attempts(log):
                while not log or log[-1]: yield Attempt(log)
            @contextlib.contextmanager
            def quiet():
                try: yield
                except Exception: pass
            def quietly(f):
                with quiet(): f()
            def within(f):
                with Attempt([]): f()
            def again(f):
                def trying():
                    for _ in range(5):
                        try: return f()
                        except Exception as error: last = error
                    raise last
                return trying
        '''))
        sys.path.insert(0, folder)
        import trying
        del sys.path[0]
        calls = []
        def f():
            calls.append(1)
            if len(calls) % 4: raise OSError
            return len(calls)
        result = [trying.again(f)(), trying.quietly(f), trying.within(f)]
        for attempt in trying.attempts([]):
            with attempt: result.append(f())
        for attempt in trying.attempts([]):
            with attempt: result.append(f())
    """,
    "a_search_that_scores_errors": """
        import warnings
        import numpy as np
        from sklearn.base import BaseEstimator, ClassifierMixin
        from sklearn.model_selection import GridSearchCV
        class Model(ClassifierMixin, BaseEstimator):
            def __init__(self, depth=1): self.depth = depth
            def fit(self, X, y):
                if self.depth == 2: fail()
                self.classes_ = np.unique(y)
                return self
            def predict(self, X): return np.zeros(len(X))
        def fail(): raise ValueError("too deep")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            search = GridSearchCV(Model(), {"depth": [1, 2]}, cv=2, error_score=0.0)
            search.fit(np.zeros((8, 1)), np.array([0, 1] * 4))
        result = search.cv_results_["mean_test_score"].tolist()
    """,
    "records_that_cannot_be_written": """
        import io, logging, sys
        class Odd:
            def __str__(self): return f()
        class Handler(logging.Handler):
            def emit(self, record):
                try: f()
                except Exception: self.handleError(record)
        def f(): raise KeyError
        stderr, sys.stderr = sys.stderr, io.StringIO()
        log = logging.getLogger("records_that_cannot_be_written")
        log.propagate = False
        log.addHandler(Handler())
        log.addHandler(logging.StreamHandler(io.StringIO()))
        log.warning("%s", Odd())
        sys.stderr, result = stderr, 1
    """,
    "getattr_and_hasattr": """
        class A:
            @property
            def broken(self): return helper()
            def __getattr__(self, name):
                if name == "other": return 1
                raise AttributeError(name)
        class B:
            @property
            def broken(self): return helper()
        def helper(): raise AttributeError("x")
        a, b = A(), B()
        result = (
            getattr(b, "broken", 5), hasattr(a, "gone"), hasattr(b, "broken"), a.other,
            getattr(a, "gone", None),
        )
    """,
    "attributes_asked_for_by_other_means": """
        import functools, inspect
        class A:
            @property
            def broken(self): return helper()
        class B:
            @functools.cached_property
            def broken(self): return helper()
            def __getattr__(self, name):
                if name == "broken": return 5
                raise AttributeError(name)
        def helper(): raise AttributeError("x")
        has, pair = hasattr, (A(), "broken")
        result = (
            has(A(), "broken"), functools.partial(hasattr, A())("broken"), hasattr(*pair),
            list(map(hasattr, [A()], ["broken"])), getattr(*pair, 1), B().broken,
            len([name for name, _ in inspect.getmembers(A()) if name[0] != "_"]),
        )
    """,
    "hasattr_in_code_that_is_warm": """
        class A:
            @property
            def broken(self): return helper()
        def helper(): raise AttributeError("x")
        def count(a): return sum(hasattr(a, "broken") for _ in range(100))
        result = [count(A()) for _ in range(10)]
    """,
    "properties_of_modules": """
        from torch import nn
        class Net(nn.Module):
            @property
            def device(self): return helper()
        def helper(): raise AttributeError("inner")
        result = [hasattr(Net(), "device"), getattr(Net(), "device", None)]
        try: Net().device
        except AttributeError: result.append(1)
    """,
    "the_sequence_protocol": """
        class Items:
            def __getitem__(self, i):
                if i > 2: raise IndexError(i)
                return helper(i)
        def helper(i): return [0, 1, 2][i]
        a, *b = Items()
        result = list(Items()), [x for x in Items()], 7 in Items(), a, b, tuple(zip(Items(), "ab"))
        for x in Items(): pass
    """,
    "stop_iteration": """
        def f(): raise StopIteration
        class Items:
            n = 0
            def __iter__(self): return self
            def __next__(self):
                self.n += 1
                if self.n > 2: f()
                return self.n
        result = list(Items()), next(iter([]), 1)
    """,
    "dict_missing_and_mappings": """
        import collections.abc
        class Maps(collections.abc.Mapping):
            def __getitem__(self, key): raise KeyError(key)
            def __iter__(self): return iter(())
            def __len__(self): return 0
        class Missing(dict):
            def __missing__(self, key): raise KeyError(key)
        try: Missing()["x"]
        except KeyError: pass
        result = Maps().get("x", 1), "x" in Maps(), Missing().get("x")
    """,
    "futures": """
        from concurrent.futures import ThreadPoolExecutor
        def f(x): return 1 / x
        with ThreadPoolExecutor(1) as pool:
            result = type(pool.submit(f, 0).exception()).__name__
    """,
    "results_of_pools": """
        from concurrent.futures import ThreadPoolExecutor, as_completed
        from multiprocessing.pool import ThreadPool
        def f(x): return 1 / x
        result = []
        with ThreadPoolExecutor(2) as pool:
            for future in as_completed([pool.submit(f, x) for x in (0, 1)]):
                try: result.append(future.result())
                except ZeroDivisionError: result.append(0)
            try: list(pool.map(f, (1, 0)))
            except ZeroDivisionError: result.append(2)
        with ThreadPool(1) as pool:
            try: pool.map(f, (1, 0))
            except ZeroDivisionError: result.append(3)
        result.sort()
    """,
    "what_a_loop_calls": """
        import asyncio
        async def fail(): sync()
        def sync(): raise KeyError
        async def main():
            log = []
            asyncio.get_running_loop().set_exception_handler(lambda *_: log.append("loop"))
            asyncio.get_running_loop().call_soon(sync)
            await asyncio.sleep(0)
            try:
                async with asyncio.TaskGroup() as group: group.create_task(fail())
            except* KeyError: log.append("group")
            for work in (asyncio.to_thread(sync), asyncio.wait_for(fail(), 60)):
                try: await work
                except KeyError: log.append("await")
            return log
        result = asyncio.run(main())
    """,
    "tasks": """
        import asyncio
        async def fail(): raise KeyError
        async def main():
            found = await asyncio.gather(fail(), return_exceptions=True)
            task = asyncio.create_task(fail())
            try: await task
            except KeyError: found.append(1)
            return found
        result = len(asyncio.run(main()))
    """,
    "imports_that_may_fail": """
        import sys, os
        open(os.path.join(os.path.dirname(__file__), "broken_part.py"), "w").write("1 / 0")
        sys.path.insert(0, os.path.dirname(__file__))
        try: import broken_part
        except ZeroDivisionError: result = 1
        finally: del sys.path[0]
    """,
    "generators_whose_consumer_handles": """
        def g():
            try:
                yield 1
                raise KeyError
            finally: pass
        def use():
            for x in g(): pass
        try: use()
        except KeyError: result = 1
    """,
    "exceptions_thrown_into_a_generator": """
        import contextlib
        log = []
        @contextlib.contextmanager
        def around():
            log.append("in")
            try: yield
            finally: log.append("out")
        def f():
            with around(): raise KeyError
        try: f()
        except KeyError: result = log
    """,
    "exception_groups": """
        def f(): raise ExceptionGroup("g", [KeyError(1)])
        try: f()
        except* KeyError: result = 1
    """,
    "a_handler_that_translates": """
        def f(): raise KeyError
        def g():
            try: f()
            except KeyError as error: raise ValueError from error
        try: g()
        except ValueError: result = 1
    """,
    "del": """
        class A:
            def __del__(self): f()
        def f(): raise KeyError
        import sys
        hook, sys.unraisablehook = sys.unraisablehook, lambda args: None
        a = A()
        del a
        sys.unraisablehook = hook
        result = 1
    """,
    "a_weakref_s_callback": """
        import sys, weakref
        class A: pass
        def callback(reference): raise KeyError
        hook, sys.unraisablehook = sys.unraisablehook, lambda args: None
        def f():
            a = A()
            watcher = weakref.ref(a, callback)
            a = None
        f()
        b = A()
        watcher = weakref.ref(b, callback)
        del b
        sys.unraisablehook = hook
        result = 1
    """,
    "a_library_that_probes": """
        import json, copy, pickle
        class A:
            def __getattr__(self, name): raise AttributeError(name)
        class Odd: pass
        def default(x): raise TypeError(x)
        copy.copy(A()), copy.deepcopy(A())
        try: json.dumps(Odd(), default=default)
        except TypeError: result = 1
    """,
    "a_clause_that_keeps_what_it_can_mend": """
        import errno
        def f(error): raise error
        class Odd(Exception):
            def __str__(self): return "odd"
        result = []
        for error in (OSError(28, "full"), RuntimeError("CUDA out of memory"), KeyError(1), Odd()):
            try: f(error)
            except OSError as e:
                if e.errno not in (errno.ENOSPC, errno.EDQUOT): raise
                result.append("disk")
            except (RuntimeError, KeyError) as e:
                if "out of memory" in str(e).lower() or type(e).__name__ == "KeyError":
                    for part in range(2): result.append(part)
                else:
                    raise e
            except Odd as e:
                if str(e) != "odd": raise
                result.append("odd")
    """,
    "errors_that_become_those_of_a_protocol": """
        class Settings(dict):
            def __missing__(self, key): return missing(key)
            def __getattr__(self, name):
                try: return self[name]
                except KeyError: raise AttributeError(name)
        class Items:
            def __init__(self): self.at = 0
            def __iter__(self): return self
            def __next__(self):
                self.at += 1
                try: return item(self.at)
                except LookupError: raise StopIteration
        class Sequence:
            def __getitem__(self, at):
                try: return item(at)
                except LookupError as error: raise IndexError(at) from error
        def missing(key): raise KeyError(key)
        def item(at): return {0: "a", 1: "b", 2: "c"}[at]
        settings = Settings(depth=3)
        result = [settings.depth, hasattr(settings, "width"), getattr(settings, "width", 1)]
        result += [*Items(), *Sequence(), list(map(str, Items()))]
        for one in Items(): result.append(one)
    """,
    "system_exit": """
        import sys
        def f(): sys.exit(3)
        try: f()
        except SystemExit as error: result = error.code
    """,
}
