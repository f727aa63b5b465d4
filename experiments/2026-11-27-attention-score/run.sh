#!/bin/sh
# sh run.sh CORPUS OUTPUT: nine trainings, continued where they were stopped; JOBS=2 runs two side by side.
# CORPUS is Multi30k, tokenised.
set -eu
corpus=$(realpath "$1")
export OMP_NUM_THREADS=1
recipe=$(dirname "$0")/../../recipes/multi30k-en-de-tok.toml
exec nice transduce ablate "$recipe" --grid attention-score --seeds 3 --jobs "${JOBS:-1}" --tokenized \
    --output "$2" --steps "${STEPS:-1200}" --set "data.folder=$corpus" --set model.num_encoder_layers=3 \
    --set model.num_decoder_layers=3 --set model.dropout=0.1 --set train.warmup_steps=400
