"""Runs scripts in forks of a process that has imported torch already: a start of it costs seconds,
and so does what the first optimizer imports.

Reads one JSON object a line (script, arguments, cwd, env, stdout, stderr) and answers with the exit
code. A fork then does what a fresh interpreter would have done: it runs the sitecustomize of the
inject folder, which attaches to the framework that is there, and the script as `__main__`.
"""

import json
import os
import runpy
import sys
import traceback
import types

import torch
import torch._dynamo  # noqa: F401


def child(task):  # type: ignore[no-untyped-def]
    os.chdir(task["cwd"])
    for name in [n for n in os.environ if n.startswith("PARAMEDIC_")]:
        del os.environ[name]
    os.environ.update(task["env"])
    for stream, path in ((1, task["stdout"]), (2, task["stderr"])):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), stream)
    sys.argv = ["train.py", *task["arguments"]]
    sys.path.insert(0, task["cwd"])
    if task["inject"]:
        try:
            runpy.run_path(os.path.join(task["inject"], "sitecustomize.py"))
        except ImportError:
            pass  # There is no other one to chain to.
    code = 0
    try:
        # As the true __main__, so that its classes can be pickled.
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        main.__file__ = os.path.abspath("train.py")
        with open("train.py", encoding="utf-8") as file:
            script = compile(file.read(), main.__file__, "exec")
        exec(script, main.__dict__)
    except SystemExit as leave:
        code = leave.code if isinstance(leave.code, int) else 1
    except BaseException:
        traceback.print_exc()
        code = 1
    import atexit

    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def serve():  # type: ignore[no-untyped-def]
    for line in sys.stdin:
        task = json.loads(line)
        pid = os.fork()
        if pid == 0:
            child(task)
        status = os.waitpid(pid, 0)[1]
        print(json.dumps(os.waitstatus_to_exitcode(status)), flush=True)


serve()
