#!/bin/sh
TF_CONFIG='{"cluster": {"worker": ["localhost:29621", "localhost:29622"]}, "task": {"type": "worker", "index": 0}}' python train.py &
TF_CONFIG='{"cluster": {"worker": ["localhost:29621", "localhost:29622"]}, "task": {"type": "worker", "index": 2}}' python train.py &
wait
