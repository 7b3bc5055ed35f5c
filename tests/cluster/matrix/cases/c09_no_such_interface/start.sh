#!/bin/sh
export MASTER_ADDR=127.0.0.1 MASTER_PORT=29611 WORLD_SIZE=3
RANK=0 python train.py &
RANK=1 GLOO_SOCKET_IFNAME=eth7 python train.py &
RANK=2 python train.py &
wait
