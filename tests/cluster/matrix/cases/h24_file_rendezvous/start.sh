#!/bin/sh
export WORLD_SIZE=2
RANK=0 python train.py &
RANK=1 python train.py &
wait
