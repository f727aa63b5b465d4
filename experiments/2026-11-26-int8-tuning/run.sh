#!/bin/sh
# Trains a student with each seed, and its last steps once more with tuning for int8, from the same checkpoint; scores both.
#
#   sh run.sh TEACHER TATOEBA OUTPUT [SEED …]
#
# TEACHER is a model folder of English to German; TATOEBA has train, dev and test (.en and .de).
# Started again, it goes on where it was stopped.
set -eu
teacher=$(realpath "$1") everyday=$(realpath "$2")
here=$(realpath "$(dirname "$0")")
mkdir -p "$3/data"
cd "$3"
shift 3
[ $# -gt 0 ] || set -- 1
for language in en de; do
    awk 'NR % 5 < 2' "$everyday/train.$language" > "data/train.$language"
    for split in dev test; do ln -sf "$everyday/$split.$language" "data/$split.$language"; done
done
cp "$here/recipe.toml" .

# student OUTPUT SEED TUNED_STEPS
student() {
    transduce student "$teacher" recipe.toml --output "$1" --from-teacher --quantization int8 --beam-size 4 --threads 1 \
        --set "train.seed=$2" --set init.learning_rate=5e-4 --set model.dropout=0.05 --set "train.int8_tuning_steps=$3"
}

for seed in "$@"; do
    student "plain-$seed" "$seed" 0
    tuned="tuned-$seed"
    if [ ! -d "$tuned" ]; then  # the same run, up to the checkpoint before the tuned steps
        rm -rf copied
        mkdir copied
        cp -r "plain-$seed/distilled" "plain-$seed/data" "plain-$seed/run" copied
        rm -r copied/run/model
        for checkpoint in copied/run/checkpoints/step-*; do
            [ "$(expr "${checkpoint##*-}" + 0)" -le 2160 ] || rm -r "$checkpoint"
        done
        mv copied "$tuned"
    fi
    student "$tuned" "$seed" 240
done
[ -s cost.json ] || python "$here/cost.py" "plain-$1/run" cost.json
python "$here/measure.py" "$teacher" . "$@"
