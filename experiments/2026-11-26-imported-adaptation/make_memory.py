"""Writes the first pairs of two aligned files as a translation memory (TMX 1.4).

python make_memory.py train.en train.de 1000 memory.tmx
"""

import itertools
import sys
from pathlib import Path
from xml.sax.saxutils import escape


def main() -> None:
    """Reads the command line and writes the file."""
    source, target, count, output = sys.argv[1:]
    languages = [Path(name).suffix.removeprefix(".") for name in (source, target)]
    lines = [Path(name).read_text(encoding="utf-8").splitlines() for name in (source, target)]
    units = []
    for pair in itertools.islice(zip(*lines, strict=True), int(count)):
        variants = (
            f'<tuv xml:lang="{language}"><seg>{escape(text)}</seg></tuv>'
            for language, text in zip(languages, pair, strict=True)
        )
        units.append(f"    <tu>{''.join(variants)}</tu>\n")
    header = f'<header creationtool="make_memory" creationtoolversion="1" segtype="sentence" o-tmf="none" \
adminlang="en" srclang="{languages[0]}" datatype="plaintext"/>'
    text = f'<?xml version="1.0" encoding="UTF-8"?>\n<tmx version="1.4">\n  {header}\n  <body>\n{"".join(units)}'
    Path(output).write_text(f"{text}  </body>\n</tmx>\n", encoding="utf-8")


if __name__ == "__main__":
    main()
