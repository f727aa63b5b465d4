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
cp "$here/heads.toml" "$here/tuned.toml" .
transduce augment distill general "$tatoeba/train.en" --output own --engine ctranslate2 --quantization float32 \
    --threads 1 --beam-size 1
transduce train heads.toml --output heads --resume
python "$here/measure.py" heads/model dev.en results.json
transduce train tuned.toml --output tuned --resume
python "$here/measure.py" tuned/model dev.en results.json
for each in general tuned/model; do
    head -n 1000 dev.en | transduce translate "$each" --beam-size 1 --engine ctranslate2 --threads 1 > "$(dirname "$each/x" | tr / -).de"
done
head -n 1000 dev.de > dev-1000.de
transduce evaluate --hypothesis general.de --reference dev-1000.de
transduce evaluate --hypothesis tuned-model.de --reference dev-1000.de
