#!/bin/sh
export MASTER_ADDR=127.0.0.1 WORLD_SIZE=2
for port in 29641 29642; do
    for rank in 0 1; do
        RANK=$rank MASTER_PORT=$port python train.py &
    done
done
wait
