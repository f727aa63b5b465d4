#!/bin/sh
# Trains and scores all rows of both comparisons, seed by seed. Started again, it goes on where it was stopped. Started several
# times with the same OUTPUT, the runs share the rows.
#
#   sh run.sh EUROPARL OUTPUT [SEED …]
#
# EUROPARL has train-00.en.zst and train-00.fr.zst. TRAIN_LINES, TEST_LINES and STEPS make everything smaller, for a trial.
set -eu
europarl=$(realpath "$1")
here=$(realpath "$(dirname "$0")")
mkdir -p "$2"
cd "$2"
shift 2
[ $# -gt 0 ] || set -- 1 2 3
export OMP_NUM_THREADS=1
train_lines=${TRAIN_LINES:-150000} test_lines=${TEST_LINES:-1200} steps=${STEPS:-3000}

# lines NAME FIRST COUNT: that many consecutive lines
lines() {
    for language in en fr; do
        zstdcat -q "$europarl/train-00.$language.zst" 2> /dev/null | sed -n "$2,$(($2 + $3 - 1))p;$(($2 + $3 - 1))q" \
            > "text.$1.$language"
    done
}

exec 9> data.lock
flock 9
if [ ! -e texts.made ]; then
    lines train 1 "$train_lines"
    lines dev 400001 "$((test_lines / 2))"
    lines test 300001 "$test_lines"
    transduce prepare --train text.train.en text.train.fr --set text.vocab_size=4000 --output vocabulary --quiet
    join() { python "$here/join_lines.py" vocabulary/tokenizer.json "$@"; }
    join text.train train 1 60 125 250 500 1000
    join text.train short 1 60 125
    for limit in 1 1000; do join text.dev "dev-$limit" "$limit"; done
    for limit in 1 60 125 250 500 1000; do join text.test "test-$limit" "$limit"; done
    touch texts.made
fi
cp "$here/recipe.toml" .
short='data.train=[["short.en", "short.fr"]]'
transduce prepare recipe.toml --tokenizer vocabulary/tokenizer.json --output prepared --quiet
transduce prepare recipe.toml --tokenizer vocabulary/tokenizer.json --output prepared-short --set "$short" --quiet

# row NAME DATA KEY=VALUE …: trains and scores one row with the seed
row() {
    run="$1-$seed" data=$2
    shift 2
    exec 9> "$run.lock"
    flock --nonblock 9 || return 0
    [ ! -s "$run.json" ] || return 0
    set -- "$@" "train.seed=$seed" "train.max_steps=$steps"
    for setting; do
        set -- "$@" --set "$setting"
        shift
    done
    [ -d "$run/model" ] || transduce train recipe.toml --data "$data" --output "$run" --resume "$@"
    transduce evaluate --model "$run/model" --engine torch --threads 1 --corpus . --json > "$run.tmp"
    mv "$run.tmp" "$run.json"
}

find "$here/rows" -maxdepth 1 -name '*.json' -exec cp --no-clobber {} . \;
[ -s cost.json ] || python "$here/cost.py" recipe.toml cost.json
flock --unlock 9
for seed in "$@"; do
    for window in 0 8 16 32 64; do row "window-$window" prepared "model.attention_window=$window"; done
    for kind in sinusoidal learned; do row "$kind" prepared-short "model.positions=$kind" "$short"; done
    python "$here/collect.py" . --output .
done
