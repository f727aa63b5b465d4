#!/bin/sh
# sh run.sh MODEL TATOEBA OUTPUT: goes on where it was stopped. MODEL translates English to German.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
model=$(cd "$1" && pwd)
tatoeba=$(cd "$2" && pwd)
mkdir -p "$3"
cd "$3"
export OMP_NUM_THREADS=1
ln -sfn "$model" general
ln -sf "$tatoeba/dev.en" "$tatoeba/dev.de" .
cp "$here"/*.toml .
transduce augment distill general "$tatoeba/train.en" --output own --engine ctranslate2 --quantization float32 \
    --threads 1 --beam-size 1
for each in heads frozen tuned; do # the latter two on a GPU
    transduce train "$each.toml" --output "$each" --resume
    python "$here/measure.py" "$each/model" dev.en results.json
done
transduce train student.toml --output student --resume
for each in general tuned/model; do
    hypothesis=$(echo "$each" | tr / -).de
    transduce translate "$each" --source dev.en --beam-size 1 --engine ctranslate2 --threads 1 > "$hypothesis"
    transduce evaluate --hypothesis "$hypothesis" --reference dev.de
done
