#!/bin/sh
# Trains a small model that reads terms in the source, and measures which terms come out that training has not seen.
#
#   sh run.sh MULTI30K TATOEBA OUTPUT [OPTION ...]
#
# MULTI30K has train and test_2016_flickr (raw text, .en and .de); TATOEBA has train, dev and test.
# Options go to `transduce train`: `--set train.seed=2`, or `--set train.modifiers=[]` for an ordinary model to compare with.
# STEPS="24000" measures the last model only, ROUNDS=1 times each search once. Started again, it goes on where it was stopped.
set -eu
captions=$(realpath "$1") everyday=$(realpath "$2")
here=$(realpath "$(dirname "$0")")
export OMP_NUM_THREADS=1
mkdir -p "$3/data"
cd "$3"
for language in en de; do
    ln -sf "$captions/train.$language" "data/captions.train.$language"
    ln -sf "$captions/test_2016_flickr.$language" "data/captions.test.$language"
    for split in train dev test; do ln -sf "$everyday/$split.$language" "data/everyday.$split.$language"; done
    head -300 "$everyday/test.$language" > "test-300.$language"
done
shift 3
cp "$here/recipe.toml" .
[ -d prepared ] || transduce prepare recipe.toml --output prepared --quiet
for steps in ${STEPS:-4000 8000 12000 16000 24000}; do
    [ -s "unseen-$steps.json" ] && continue
    transduce train recipe.toml --data prepared --output run --resume --set "train.max_steps=$steps" "$@"
    transduce average run --last "$([ "$steps" -ge 12000 ] && echo 8 || echo 2)" --output "model-$steps" --overwrite
    python "$here/../../benchmarks/glossary.py" "model-$steps" --source data/everyday.test.en \
        --reference data/everyday.test.de --train-source data/everyday.train.en --train-target data/everyday.train.de \
        --lines 0 --unseen 500 --rounds ${ROUNDS:-5} --train-lines 20000 --output "unseen-$steps.json"
done
for steps in 12000 16000 24000; do
    [ -d "model-$steps" ] || continue
    transduce evaluate --model "model-$steps" --translate --source test-300.en --reference test-300.de --robustness --json \
        > "robustness-$steps.json"
    python "$here/copied_items.py" "model-$steps" data/everyday.test.en data/everyday.test.de "items-$steps.json"
done
