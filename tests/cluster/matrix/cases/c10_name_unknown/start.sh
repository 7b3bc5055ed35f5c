#!/bin/sh
export MASTER_ADDR=node-17.invalid MASTER_PORT=29611 WORLD_SIZE=3
RANK=0 python train.py &
RANK=1 python train.py &
RANK=2 python train.py &
wait
