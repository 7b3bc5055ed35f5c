#!/bin/sh
export MASTER_ADDR=127.0.0.1 MASTER_PORT=29611 WORLD_SIZE=3
RANK=0 PYTHONPATH=site:$PYTHONPATH python train.py &
RANK=1 PYTHONPATH=site:$PYTHONPATH python train.py &
RANK=2 PYTHONPATH=site_old:$PYTHONPATH python train.py &
wait
