"""Makes the raw sentences for the semi-supervised parser: words apart from punctuation, one sentence a line.

    python raw_sentences.py 3000 news.en tatoeba.en europarl.en.zst > raw.txt

Takes so many sentences of 4 to 40 words from each file, evenly spread. Tokens are cut as in treebanks:
clitics ("do n't", "John 's") and hyphens stand alone.
"""

import re
import sys
from pathlib import Path

from transduce.data.readers import read_lines
from transduce.treebank import escape_brackets

_TOKEN = re.compile(
    r"\d+(?:[.,:]\d+)*|(?:[A-Za-z]\.){2,}|\w+?(?=n['’]t\b)|n['’]t\b|['’](?:s|re|ve|ll|d|m)\b|\w+|\.\.\.|--|[^\w\s]",
    re.I,
)


def main() -> None:
    wanted = int(sys.argv[1])
    for name in sys.argv[2:]:
        sentences = [[escape_brackets(word) for word in _TOKEN.findall(line)] for line in read_lines(Path(name))]
        sentences = [words for words in sentences if 4 <= len(words) <= 40]
        for place in range(wanted):
            print(" ".join(sentences[place * len(sentences) // wanted]))


if __name__ == "__main__":
    main()
