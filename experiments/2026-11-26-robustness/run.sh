#!/bin/sh
# Trains an ordinary and a modified model with three seeds each, and scores the versions of both test sets.
#
#   sh run.sh MULTI30K TATOEBA OUTPUT
#
# MULTI30K has train and test_2016_flickr (raw text, .en and .de); TATOEBA has train, dev and test.
# Started again, it goes on where it was stopped.
set -eu
captions=$(realpath "$1") everyday=$(realpath "$2")
here=$(realpath "$(dirname "$0")")
mkdir -p "$3/data"
cd "$3"
for language in en de; do
    ln -sf "$captions/train.$language" "data/captions.train.$language"
    ln -sf "$captions/test_2016_flickr.$language" "data/captions.test.$language"
    for split in train dev test; do ln -sf "$everyday/$split.$language" "data/everyday.$split.$language"; done
done
cp "$here/recipe.toml" .
transduce prepare recipe.toml --output prepared --quiet
for seed in 1 2 3; do
    for kind in ordinary modified; do
        run="$kind-$seed"
        set -- --set "train.seed=$seed"
        if [ "$kind" = ordinary ]; then set -- "$@" --set "train.modifiers=[]"; fi
        [ -d "$run/model" ] || transduce train recipe.toml --data prepared --output "$run" --resume "$@"
        [ -s "$run.json" ] || {
            transduce evaluate --model "$run/model" --robustness --json > "$run.tmp" && mv "$run.tmp" "$run.json"
        }
    done
done
python "$here/collect.py" . > results.json
