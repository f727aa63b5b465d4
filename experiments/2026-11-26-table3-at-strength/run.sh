#!/bin/sh
# sh run.sh CORPUS OUTPUT: goes on where it was stopped. CORPUS is Multi30k, tokenised (train.en, train.de, …).
# ROWS=A1,A4 trains these rows besides the base first; JOBS=2 trains two seeds side by side, each on one thread.
set -eu
mkdir -p "$2"
corpus=$(cd "$1" && pwd) output=$(cd "$2" && pwd)
cd "$(dirname "$0")/../.."  # where recipes/ is
export OMP_NUM_THREADS=1
exec transduce paper table3 --scale laptop --corpus "$corpus" --output "$output" ${ROWS:+--rows "$ROWS"} --seeds 3 --jobs "${JOBS:-2}" \
    --set train.max_steps=4000 --set train.warmup_steps=600 --set train.validate_steps=1000 \
    --set train.source_batch_tokens=2048 --set train.target_batch_tokens=2048
