#!/bin/sh
# Who computes beside the job is no process of it: it has a session of its own and no parent here.
for neighbour in 1 2; do
  setsid --fork nice -n 5 python -c "while True: pass" </dev/null >/dev/null 2>&1
done
exec torchrun --standalone --nproc-per-node 2 train.py
