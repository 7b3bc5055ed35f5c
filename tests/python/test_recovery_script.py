"""A script under recovery is to itself and to its reader what it is without."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Dict, List, Optional

import pytest
from conftest import INJECT

VERSIONS = Path(os.environ.get("PYENV_ROOT", "/root/.pyenv")) / "versions"
PYTHONS = [sys.executable] + [
    str(path)
    for path in sorted(VERSIONS.glob("3.1[1-3].*/bin/python"))
    if f"{sys.version_info[0]}.{sys.version_info[1]}." not in str(path)
]

SCRIPTS: Dict[str, str] = {
    "names_of_main": """
        '''The docstring.'''
        from __future__ import annotations
        import sys
        from importlib.machinery import SourceFileLoader
        print(__name__, __file__, __spec__ and __spec__.name, __package__, __doc__, sys.path[0])
        print(__cached__, sys.argv, isinstance(__loader__, SourceFileLoader), __loader__.path)
        print(sorted(globals()), __annotations__)
        x: int = 3
        print(__annotations__, sys.modules["__main__"].x)
    """,
    "functions_look_as_written": '''
        import inspect, pickle, warnings, asyncio, doctest
        class A:
            """Doc."""
            def method(self, x: int = 2, *, y=3) -> str:
                "Does it."
                for i in range(x):
                    with open(__file__) as file:
                        y += i
                return f"{x}{y}"
            def __private(self):
                return self
            async def wait(self):
                return 1
        def gen(n):
            """
            >>> list(gen(2))
            [0, 1]
            """
            try:
                yield from range(n)
            finally:
                print("finally")
        f = A.method
        print(f.__name__, f.__qualname__, f.__doc__, f.__defaults__, f.__kwdefaults__)
        print(f.__annotations__, inspect.signature(f), inspect.getsource(f), f.__module__)
        print(f.__code__.co_firstlineno, f.__code__.co_filename, f.__code__.co_argcount)
        print(pickle.loads(pickle.dumps(A)) is A, pickle.loads(pickle.dumps(gen)) is gen, dir(A()))
        print(inspect.isgeneratorfunction(gen), inspect.iscoroutinefunction(A.wait))
        print(asyncio.run(A().wait()), A()._A__private().method(), doctest.testmod())
        warnings.warn("here")
    ''',
    "an_exception_in_functions": """
        import sys
        def inner(x):
            for i in range(3):
                with open(__file__) as file:
                    try:
                        return [
                            1 / x
                            for _ in range(2)
                        ]
                    finally:
                        print("finally")
        def outer(x):
            try:
                inner(x)
            except ZeroDivisionError as error:
                raise ValueError("more") from error
        outer(0)
    """,
    "caught_and_printed": """
        import traceback, sys
        def f(): return g()
        def g(): raise KeyError(1)
        try:
            f()
        except KeyError as error:
            traceback.print_exc()
            entry = error.__traceback__
            while entry:
                print(entry.tb_lineno, entry.tb_frame.f_code.co_name)
                entry = entry.tb_next
        for a, b in [(1, 2), 3]:
            pass
    """,
    "not_iterable_and_no_manager": """
        import traceback
        for text in ("for x in 5: pass", "with 5: pass"):
            try: exec(text)
            except TypeError: traceback.print_exc()
        def f():
            for x in 5:
                pass
        def g():
            with 5 as x, 6 as y:
                pass
        for one in (f, g):
            try: one()
            except (TypeError, AttributeError): traceback.print_exc()
        with (
            open(__file__) as file,
            5 as y,
        ):
            pass
    """,
    "a_syntax_error": "def f(:\n",
    "exit_codes": "import sys\nsys.exit(int(sys.argv[1]))\n",
    "an_exit_with_words": "import sys\nsys.exit('bye')\n",
    "keyboard_interrupt": "raise KeyboardInterrupt\n",
    "an_own_excepthook": """
        import sys, traceback
        def hook(kind, error, trace):
            print(kind.__name__, error, traceback.extract_tb(trace), sys.exc_info())
        sys.excepthook = hook
        {}["x"]
    """,
    "a_stop_iteration_at_the_end": "next(iter(()))\n",
    "a_shadowed_iter": """
        def iter(x): return [x]
        for i in range(2):
            print(i, iter(i))
    """,
    "modules_of_the_project": """
        import sys
        from pathlib import Path
        Path("other.py").write_text("def f(x):\\n    return 1 / x\\nprint(__spec__.origin)\\n")
        Path("pkg").mkdir(exist_ok=True)
        Path("pkg/__init__.py").write_text("from . import part\\n")
        Path("pkg/part.py").write_text("def f(x):\\n    return other.f(x)\\nimport other\\n")
        import pkg, other, importlib
        importlib.reload(other)
        print(type(other.__loader__.get_source("other")), other.__cached__ is not None)
        pkg.part.f(0)
    """,
    "spawned_processes": """
        import multiprocessing, sys
        def work(queue):
            queue.put((__name__, __spec__, __package__, __file__))
        if __name__ == "__main__":
            for way in ("fork", "spawn"):
                context = multiprocessing.get_context(way)
                queue = context.Queue()
                process = context.Process(target=work, args=(queue,))
                process.start()
                print(queue.get())
                process.join()
                print(process.exitcode)
    """,
    "lines_that_are_traced": """
        import sys
        lines = []
        def tracer(frame, event, argument):
            if frame.f_code.co_filename == __file__ and event in ("line", "return"):
                lines.append((event, frame.f_lineno))
            return tracer
        def f(n):
            total = 0
            for i in range(n):
                if i % 2:
                    continue
                total += i
            while total > 1:
                total -= 1
            return total
        def g():
            if f(4):
                print("x")
        sys.settrace(tracer)
        g()
        sys.settrace(None)
        print(sorted(set(lines)))
    """,
}
ARGUMENTS = {"exit_codes": ["7"]}


def outcome(python: str, folder: Path, arguments: List[str], recovers: bool) -> List[object]:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PARAMEDIC_", "PYTHON"))}
    if recovers:
        env.update(
            PARAMEDIC_RUN=str(folder / "no-run"), PARAMEDIC_ON_CRASH="auto", PYTHONPATH=str(INJECT)
        )
    env["PYTHONDONTWRITEBYTECODE"] = "1"
    done = subprocess.run([python, *arguments], cwd=folder, env=env, capture_output=True, text=True)
    return [done.returncode, done.stdout, done.stderr]


def both(python: str, folder: Path, source: Optional[str], arguments: List[str]) -> None:
    if source is not None:
        (folder / "script.py").write_text(textwrap.dedent(source))
    plain = outcome(python, folder, arguments, False)
    assert outcome(python, folder, arguments, True) == plain


@pytest.mark.parametrize("python", PYTHONS, ids=[p.split("/")[-3] for p in PYTHONS])
@pytest.mark.parametrize("name", SCRIPTS)
def test_nothing_tells_a_script_that_it_can_be_repaired(
    tmp_path: Path, python: str, name: str
) -> None:
    both(python, tmp_path, SCRIPTS[name], ["script.py", *ARGUMENTS.get(name, [])])


WAYS = {
    "by_an_absolute_path": ["{folder}/script.py"],
    "through_a_link": ["link.py"],
    "in_another_folder": ["./sub/../script.py"],
    "with_options": ["-u", "-X", "dev", "-Wignore", "script.py"],
    "with_a_safe_path": ["-P", "script.py"],
    "isolated": ["-I", "script.py"],
    "as_a_module": ["-m", "script", "argument"],
    "without_a_suffix": ["bare"],
    "a_folder": ["app"],
}


@pytest.mark.parametrize("way", WAYS)
def test_a_script_may_be_started_in_any_way(tmp_path: Path, way: str) -> None:
    source = SCRIPTS["names_of_main"] + "\n        1 / 0\n"
    (tmp_path / "sub").mkdir()
    (tmp_path / "app").mkdir()
    for name in ("bare", "app/__main__.py"):
        (tmp_path / name).write_text(textwrap.dedent(source))
    (tmp_path / "link.py").symlink_to(tmp_path / "script.py")
    arguments = [one.format(folder=tmp_path) for one in WAYS[way]]
    both(sys.executable, tmp_path, source, arguments)


def test_a_script_that_cannot_be_transformed_runs_as_it_is(tmp_path: Path) -> None:
    deep = (
        "\n".join(f"{' ' * 4 * i}with open(__file__) as f{i}:" for i in range(11))
        + f"\n{' ' * 44}print(__name__, __spec__)\n{' ' * 44}1 / 0\n"
    )
    both(sys.executable, tmp_path, deep, ["script.py"])


REPAIRED = """
import sys
from paramedic.recovery import resume
from paramedic.recovery.crash import Repair
class Decider:
    def ask(self, crash):
        print([(one.function, one.line) for one in crash.frames])
        return Repair("action", code="x = 2")
    def resumed(self, crash, repair, took_ms): pass
    def refused(self, crash, repair, reason): print(reason)
resume.decided_by(Decider)
from other import divide
def f(x):
    y = divide(x)
    return x, y
for i in range(2):
    print(f(i))
"""


def test_a_crash_of_a_module_and_one_of_the_script_are_repaired(tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text("def divide(x):\n    return 1 / x\n")
    (tmp_path / "script.py").write_text(REPAIRED)
    code, out, err = outcome(sys.executable, tmp_path, ["script.py"], True)
    assert (code, err) == (0, "")
    assert out == "[('<module>', 17), ('f', 14), ('divide', 2)]\n(0, 0.5)\n(1, 1.0)\n"


def test_only_the_project_is_transformed(tmp_path: Path) -> None:
    for folder in ("project/.git", "project/scripts", "project/env/site-packages", "else"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "project/lib.py").write_text("def f(): pass\n")
    (tmp_path / "project/env/site-packages/third.py").write_text("def f(): pass\n")
    (tmp_path / "project/env/site-packages/also_this.py").write_text("def f(): pass\n")
    (tmp_path / "else/away.py").write_text("def f(): pass\n")
    (tmp_path / "project/scripts/script.py").write_text(
        textwrap.dedent(
            """
            import os, sys, json
            root = os.path.dirname(os.path.dirname(__file__))
            sys.path += [root, root + "/env/site-packages", root + "/../else"]
            import lib, third, also_this, away
            def is_transformed(f):
                return any(type(one).__name__ == "Runtime" for one in f.__code__.co_consts)
            all = is_transformed, lib.f, third.f, also_this.f, away.f, json.dumps
            print(*map(is_transformed, all))
            """
        )
    )
    env = {"PARAMEDIC_RUN": "x", "PARAMEDIC_ON_CRASH": "wait", "PARAMEDIC_ALSO": "also_this"}
    done = subprocess.run(
        [sys.executable, str(tmp_path / "project/scripts/script.py")],
        env={**os.environ, **env, "PYTHONPATH": str(INJECT)},
        capture_output=True,
        text=True,
    )
    assert done.stdout == "True True False True False False\n", done.stderr
