#!/bin/sh
export MASTER_ADDR=127.0.0.1 MASTER_PORT=29611 WORLD_SIZE=4
RANK=0 python train.py &
RANK=1 python train.py &
RANK=2 python train.py &
RANK=1 python train.py &
wait
