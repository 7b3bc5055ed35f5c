#!/bin/sh
export MASTER_ADDR=127.0.0.1 MASTER_PORT=29643 WORLD_SIZE=2
for job in 1 2; do
    RANK=0 python train.py &
    RANK=1 python train.py &
    wait
done
