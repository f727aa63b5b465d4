#!/bin/sh
# Table 4 with the constrained search, three seeds, whole test sets; then the same weights with repair, and PCFGs.
#
#   sh three_seeds.sh TREEBANKS OUTPUT
#
# TREEBANKS is the folder that recipes/treebank-small.toml describes. Started again, it goes on where it was stopped.
set -eu
treebanks=$(realpath "$1") here=$(realpath "$(dirname "$0")")
root=$here/../..
transduce paper table4 --scale laptop --corpus "$treebanks" --constrained --set decode.beam_size=21 \
    --set train.validate_steps=1200 --set train.validate_bleu_sentences=30 --seeds 3 \
    --baseline "$root/benchmarks/results/2026-11-21-pcfg.json" --output "$2"
output=$2
pcfg() { # NAME TEST TRAIN …: parses a test set with the grammar of its own treebank
    name=$1 tested=$2
    shift 2
    python "$root/benchmarks/pcfg.py" --train "$@" --name "$name" --test "$name" "$tested" --parses "$output/pcfg/$name"
}
pcfg gum "$treebanks/gum/test" "$treebanks/gum/train"
pcfg wsj "$treebanks/wsj-sample/test" "$treebanks/wsj-sample/train"
pcfg craft "$treebanks/craft/17[4-6]*.tree" "$treebanks"/craft/1[1-6]*.tree "$treebanks"/craft/17[01]*.tree
python "$here/three_seeds.py" "$output/runs" "$output/pcfg" "$here/three-seeds.json"
