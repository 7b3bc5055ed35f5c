"""Starts one process for each TF_CONFIG of configs.json, as a script of a user would.

start.py JOB ARGUMENT…: ends with the worst exit code, once all have ended. Servers do not end by
themselves: they are ended when the chief is done.
"""

import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))

with open("configs.json", encoding="utf-8") as file:
    configs = json.load(file)
script, *arguments = sys.argv[1:]
processes = [
    subprocess.Popen(
        [sys.executable, os.path.join(HERE, script), *arguments],
        env=dict(os.environ, TF_CONFIG=config),
    )
    for config in configs
]
kinds = [json.loads(config)["task"]["type"] if "chief" in config else "" for config in configs]
waited_for = [p for p, kind in zip(processes, kinds) if kind not in ("worker", "ps")]
codes = [process.wait() for process in waited_for]
for process in processes:
    if process not in waited_for:
        process.terminate()
        process.wait()
sys.exit(max((abs(code) for code in codes), default=0))
