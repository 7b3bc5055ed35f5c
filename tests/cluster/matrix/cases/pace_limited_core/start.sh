#!/bin/sh
# $1: the folder of the matrix's tools. Rank 1 may use a small part of a core.
export MASTER_ADDR=127.0.0.1 MASTER_PORT=29617 LOCAL_WORLD_SIZE=2
WORLD_SIZE=2 RANK=0 python train.py &
python "$1/in_control_group.py" --cpu-percent 12 -- env WORLD_SIZE=2 RANK=1 python train.py &
wait
