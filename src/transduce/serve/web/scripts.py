"""The script of a text, and those that languages are written in."""

import re
import unicodedata
from collections import Counter

# Languages that the identifier knows and that have another script than Latin, or further ones (CLDR), by the first word
# of the names of letters in Unicode.
_TABLE = (
    "am ETHIOPIC|ar ARABIC|ary ARABIC|arz ARABIC|as BENGALI|az LATIN CYRILLIC ARABIC|ba CYRILLIC|be CYRILLIC"
    "|bg CYRILLIC|bn BENGALI|bs LATIN CYRILLIC|crh LATIN CYRILLIC|dz TIBETAN|el GREEK|fa ARABIC|fuv LATIN ARABIC ADLAM"
    "|gom DEVANAGARI LATIN KANNADA|grc GREEK|gu GUJARATI|ha LATIN ARABIC|hbo HEBREW|he HEBREW|hi DEVANAGARI"
    "|hy ARMENIAN|ja HIRAGANA KATAKANA CJK|ka GEORGIAN|kab LATIN TIFINAGH|kk CYRILLIC LATIN ARABIC|km KHMER"
    "|kn KANNADA|ko HANGUL CJK|ku LATIN ARABIC CYRILLIC|ky CYRILLIC ARABIC LATIN|lo LAO|mk CYRILLIC|ml MALAYALAM"
    "|mn CYRILLIC MONGOLIAN|mr DEVANAGARI|ms LATIN ARABIC|my MYANMAR|ne DEVANAGARI|or ORIYA|pa GURMUKHI ARABIC"
    "|ps ARABIC|ru CYRILLIC|sa DEVANAGARI|sdh ARABIC|si SINHALA|sr CYRILLIC LATIN|ta TAMIL|te TELUGU|tg CYRILLIC ARABIC"
    "|th THAI|tk LATIN CYRILLIC ARABIC|tt CYRILLIC LATIN ARABIC|ug ARABIC CYRILLIC LATIN|uk CYRILLIC|ur ARABIC"
    "|uz LATIN CYRILLIC ARABIC|uzs ARABIC|wuu CJK|yue CJK|zh CJK BOPOMOFO"
)
_SCRIPTS = {code: frozenset(names.split()) for code, names in re.findall(r"(\w+) ([A-Z ]+)", _TABLE)}
_LATIN = frozenset({"LATIN"})
_OF_NO_SCRIPT = {"FEMININE", "MASCULINE", "MODIFIER", "MICRO"}


def script_of(text: str) -> str:
    """Returns the script of most letters of a text, such as "LATIN"; "" if it has none."""
    letters = Counter(each for each in unicodedata.normalize("NFKC", text) if each.isalpha())
    scripts: Counter[str] = Counter()
    for letter, number in letters.items():
        scripts[unicodedata.name(letter, "").partition(" ")[0]] += number
    found = [(script, number) for script, number in scripts.items() if script and script not in _OF_NO_SCRIPT]
    return max(found, key=lambda item: item[1], default=("", 0))[0]


def is_written_in(language: str, script: str) -> bool:
    """Returns whether a language, by the identifier's code, is written in a script; any language is in none ("")."""
    return not script or script in _SCRIPTS.get(language, _LATIN)
