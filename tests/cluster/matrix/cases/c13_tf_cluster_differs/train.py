"""Stands for a program of tf.distribute: waits as one would for the others."""

import json
import os
import time

config = json.loads(os.environ["TF_CONFIG"])
print("task", config["task"], flush=True)
time.sleep(8)
