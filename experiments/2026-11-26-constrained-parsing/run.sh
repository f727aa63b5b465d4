#!/bin/sh
# Trains the small parser with seed 1, parses sentences of its three test sets both ways, and compares.
#
#   sh run.sh TREEBANKS OUTPUT
#
# TREEBANKS is the folder that recipes/treebank-small.toml describes.
set -eu
treebanks=$(realpath "$1") here=$(realpath "$(dirname "$0")")
recipe=$here/../../recipes/treebank-small.toml
transduce parse train "$recipe" --output "$2/run" --set "data.folder=$treebanks" --set 'data.test={}' \
    --set train.validate_steps=1200 --set train.validate_bleu_sentences=30
for beam in 21 4; do
    for name in gum wsj craft; do
        python "$here/measure.py" "$2/run/model" "$treebanks" "$2/$name-beam$beam.json" "$name" 300 "$beam"
    done
done
