#!/bin/sh
# Trains ordinary models further, with typos and missing full stops and, as a control, without; scores all of them.
#
#   sh run.sh MULTI30K TATOEBA OUTPUT MODEL [MODEL ...]
#
# MULTI30K has train (raw text, .en and .de); TATOEBA has train, dev and test. Each MODEL is an ordinary one of
# ../2026-11-26-terms, and its number, counted from 1, is the seed. Several of these commands can share one OUTPUT: a training
# belongs to who has its lock. Started again, it goes on where it was stopped.
set -eu
captions=$(realpath "$1") everyday=$(realpath "$2")
here=$(realpath "$(dirname "$0")") start=$PWD
export OMP_NUM_THREADS=1
mkdir -p "$3"
cd "$3"
output=$PWD
shift 3

# scores MODEL NAME: the versions of 1000 lines, and all 3000 lines as they are
scores() {
    [ -s "$output/$2-versions.json" ] || {
        transduce evaluate --model "$1" --translate --source test-1000.en --reference test-1000.de --robustness --json > scores
        mv scores "$output/$2-versions.json"
    }
    [ -s "$output/$2-clean.json" ] || {
        transduce evaluate --model "$1" --translate --source data/everyday.test.en --reference data/everyday.test.de --json > scores
        mv scores "$output/$2-clean.json"
    }
}

seed=0
for model in "$@"; do
    seed=$((seed + 1))
    model=$(cd "$start" && realpath "$model")
    for kind in typos plain; do
        mkdir -p "$kind-$seed/data"
        (
            flock --nonblock 9 || exit 0
            cd "$kind-$seed"
            for language in en de; do
                ln -sf "$captions/train.$language" "data/captions.train.$language"
                for split in train dev test; do
                    ln -sf "$everyday/$split.$language" "data/everyday.$split.$language"
                done
                head -1000 "$everyday/test.$language" > "test-1000.$language"
            done
            ln -sfn "$model" ordinary
            cp "$here/recipe.toml" .
            if [ "$kind" = typos ]; then set --; else set -- --set train.modifiers=[]; fi
            [ -d prepared ] || transduce prepare recipe.toml --output prepared --quiet "$@"
            transduce train recipe.toml --data prepared --output run --resume --set "train.seed=$seed" "$@"
            scores run/model "$kind-$seed"
            [ "$kind" = typos ] || scores ordinary "ordinary-$seed"
        ) 9> "$kind-$seed.lock"
    done
done
