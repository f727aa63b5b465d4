#!/bin/sh
# Adapts an imported model to a translation memory of 1,000 pairs, with three seeds, and scores it.
#
#   sh run.sh IMPORTED_MODEL MULTI30K TATOEBA OUTPUT
#
# MULTI30K has train, val and the test sets of 2016 and 2017 (raw text, .en and .de); TATOEBA has dev and test.
# Started again, it goes on where it was stopped.
set -eu
model=$(realpath "$1") captions=$(realpath "$2") everyday=$(realpath "$3")
here=$(realpath "$(dirname "$0")")
mkdir -p "$4"
cd "$4"
[ -f memory.tmx ] || python "$here/make_memory.py" "$captions/train.en" "$captions/train.de" 1000 memory.tmx
[ -f mine.toml ] || transduce init --from "$model" --train memory.tmx --output mine.toml
for seed in 1 2 3; do
    [ -d "mine-$seed/model" ] || transduce train mine.toml --output "mine-$seed" --set "train.seed=$seed" --resume
done
tests="$captions/test_2016_flickr.en:$captions/test_2016_flickr.de"
tests="$tests,$captions/test_2017_flickr.en:$captions/test_2017_flickr.de"
python "$here/../score_models.py" --test "captions=$tests" --test "tatoeba=$everyday/test.en:$everyday/test.de" \
    --model "imported=$model" --model "adapted=mine-1/model,mine-2/model,mine-3/model" --output results.json
