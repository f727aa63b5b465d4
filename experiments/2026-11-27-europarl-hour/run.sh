#!/bin/sh
# Trains three systems on Europarl for an hour each, and scores them on newstest2014; goes on where it was stopped.
#
#   sh run.sh EUROPARL NEWS OUTPUT
#
# SYSTEMS=lstm trains one system only: all three can run side by side, since minutes are processor time.
# EUROPARL has train-00.en.zst and train-00.fr.zst, NEWS has newstest2013 and newstest2014 in .en and .fr. PAIRS, FLOPS and
# MINUTES make it smaller, for a trial.
set -eu
export OMP_NUM_THREADS=1
europarl=$1 news=$2 output=$3
lines=${PAIRS:-1001332}
mkdir -p "$output/corpus"
for language in en fr; do
    train=$output/corpus/train.$language
    [ -s "$train" ] || { zstdcat -q "$europarl/train-00.$language.zst" | head -n "$lines" > "$train.part"; mv "$train.part" "$train"; }
    cp "$news/newstest2013.$language" "$news/newstest2014.$language" "$output/corpus"
done
exec nice transduce paper table2 --controls --recipe "$(dirname "$0")/recipe.toml" --corpus "$output/corpus" \
    --output "$output" ${SYSTEMS:+--systems "$SYSTEMS"} --flops "${FLOPS:-1e14}" --minutes "${MINUTES:-60}"
