#!/usr/bin/env bash
set -euo pipefail
export GREETING="from the wrapper"
python prepare.py > numbers.txt
python job.py --in numbers.txt --power 2
echo "job ended with $?"
wc -l < out.txt
