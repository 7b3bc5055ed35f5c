#!/bin/sh
python -m http.server --bind 127.0.0.1 29611 &
server=$!
sleep 1
export MASTER_ADDR=127.0.0.1 MASTER_PORT=29611 WORLD_SIZE=2
RANK=0 python train.py &
first=$!
RANK=1 python train.py &
wait $first $!
kill $server
