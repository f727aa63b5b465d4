#!/bin/sh
# sh run.sh MULTI30K OUTPUT: trains and compares; goes on where it was stopped. SEEDS=3 adds two seeds to the first.
set -eu
export OMP_NUM_THREADS=1
exec nice transduce paper table2 --controls --recipe "$(dirname "$0")/recipe.toml" --corpus "$1" --output "$2" \
    --flops 3e13 --minutes 8 --trials 4 --seeds "${SEEDS:-1}"
