"""What is no prose, in plain text and in documents alike: patterns of items that a translation keeps as they are.

An item of the first patterns (URLs, addresses, placeholders) may be nowhere in a translation but where its source has
it. One of the others (codes, paths, emoji and the like) may be written by a model where its source has none: "ISO 9001"
may become "ISO-9001".
"""

import re

from transduce.text.phrases import HANGUL, INDIAN, UNSPACED
from transduce.text.signs import ACCENTS

# Words of Chinese, Japanese, Thai and Korean touch items: "https://a.org/bをご覧". So the patterns read a line in which
# each letter of these scripts is this sign, which is no letter.
_OTHER_LETTER = "\ue000"
_OTHER_LETTERS = re.compile(rf"[{UNSPACED}{HANGUL}]")
# So do prefixes and suffixes of other languages: "ב-UTF-8", "وUTF-8", "UTF-8-ის", "UTF-8க்கு".
_LETTERS = rf"\u0531-\u0587\u05d0-\u05ea\u0620-\u065f\u066e-\u06d3{INDIAN}\u10a0-\u10ff"
_AFFIXES = re.compile(
    rf"(?<![\w{_LETTERS}/.=%-])(?:[{_LETTERS}]{{1,2}}-(?=[A-Za-z0-9/_.~])|[{_LETTERS}]++(?=[A-Za-z]))"
    rf"|(?<=[A-Za-z0-9])(?:-[\u0531-\u0587\u0980-\u09ff\u10a0-\u10ff]|[{_LETTERS}])[{_LETTERS}]*+(?![\w/-]|\.\w)"
)
_MARKS = re.compile(rf"(?!\w)[{INDIAN}{ACCENTS}]")  # are read as a letter, so that words with them are whole: "#हिन्दी"
_LETTER = "\u00e0"

# Commas, full stops and question marks of Arabic, Urdu, India and Armenia, and what sets the direction of text: in no
# address, but at its end.
_DIRECTIONS = "\u200e\u200f\u202a-\u202e\u2066-\u2069"
_SIGNS = f"\u0589\u060c\u061b\u061f\u06d4\u0964\u0965{_DIRECTIONS}"

# Possessive quantifiers (++) and the bound of 256: without them, some texts take time that is quadratic in the length.
SIGN_IN_URL = rf"[^\s<>\"'`\u3000-\u303f\uff00-\uff65{_OTHER_LETTER}{_SIGNS}]"
_PART_OF_PATH = rf"(?<=[/=_-]){_OTHER_LETTER}++(?![^\s/?\#&_.=%-])"  # "/wiki/東京"
_IN_URL = (
    rf"(?:{SIGN_IN_URL}|{_PART_OF_PATH}){SIGN_IN_URL}*(?:{_PART_OF_PATH}{SIGN_IN_URL}*)*"
    r"(?<![.,;:!?…)\]}»”’])"
)
PLACEHOLDERS = (
    rf"(?P<url>(?:https?://|ftp://|www\.){_IN_URL})"
    r"|(?P<address>\b[\w.+-]{1,256}@[\w-]++(?:\.[\w-]++)+)"
    r"|(?P<variable>(?-i:%[A-Z_][A-Z0-9_]{1,100}%))"
    r"|(?P<printf>%%|%\(\w++\)[-+\#0]*+\d*+(?:\.\d++)?[a-zA-Z]"
    r"|(?<![\d%])%(?:\d++\$)?[-+\#0]*+(?:\d++|\*)?(?:\.(?:\d++|\*))?(?:hh|h|ll|l|L|z|j|t|q)?[diouxXeEfFgGaAcspn@])"
    r"|(?P<brace>[$\#]?\{)"
)

_ENDINGS = (
    "com|org|net|edu|gov|io|eu|info|html?|xml|json|ya?ml|toml|ini|cfg|conf|txt|md|csv|tsv|pdf|docx?|xlsx?|pptx?|od[tsp]"
    "|zip|gz|tar|png|jpe?g|gif|svg|mp[34]|wav|exe|dll|py|js|ts|css|php|java|rb|cpp|sh|bat|log|sql|db"
)
_PICTOGRAPH = (
    r"[\u00a9\u00ae\u2022\u203c\u2049\u2122\u2139\u2190-\u23ff\u2460-\u24ff\u2500-\u27bf\u2900-\u297f\u2b00-\u2bff"
    r"\u3030\u303d\u3297\u3299\U0001f000-\U0001faff][\ufe0e\ufe0f]?[\U0001f3fb-\U0001f3ff]?"
)
_DATE = r"\d{1,2}\.\d{1,2}\.\d{4}(?![\d.]*\d)"
_THOUSANDS = r"\d{1,3}(?:\.\d{3})+(?![\d.]*\d)"  # 1.000.000
_BUILD = r"(?:[-+][0-9A-Za-z](?:[0-9A-Za-z.-]{0,40}[0-9A-Za-z])?)?"  # what follows a version: 1.0.0-rc.1
_OPERAND = r"(?:\d++(?:[.,]\d++)*+|[a-zA-Z])"
_OPENING = "\"'(\\[„“‚‘«»‹›\u05be\u3000-\u3020\uff08-\uff1b"
_AFTER_SPACE = rf"(?<![^\s{_OPENING}{_OTHER_LETTER}{_DIRECTIONS}])"
_LITERALS = (
    r"`[^`\n]{1,256}`",
    r"(?<![\w$])\$[A-Za-z_]\w{0,100}",  # $HOME; no price
    rf"(?<![\w@#&])[@#](?:[^\W\d]\w++|{_OTHER_LETTER}[\w{_OTHER_LETTER}]++)",  # @user, #topic
    rf"{_AFTER_SPACE}--[a-z][a-z0-9]++(?:-[a-z0-9]++)*+(?:={_IN_URL})?",
    # Paths and names of files: from a root, of Windows, relative with an ending, a name with one, a host.
    rf"{_AFTER_SPACE}(?:~|\.{{1,2}})/[\w.@+-]*\w(?:/[\w.@+-]*\w)*+/?",
    rf"{_AFTER_SPACE}/[\w.@+-]*\w(?:/[\w.@+-]*\w)++/?",
    r"(?<!\w)[A-Za-z]:\\(?:[^\s\"<>|]{0,256}\w)?",
    r"(?<![\w./\\@-])[\w-]{1,64}(?:/[\w.-]{1,64}){1,32}\.[A-Za-z][A-Za-z0-9]{0,4}(?![\w/])",
    rf"(?<![\w./\\@-])[\w-]{{1,64}}(?:\.[\w-]{{1,64}}){{0,8}}\.(?:{_ENDINGS})(?![\w-]|\.\w)(?:/{_IN_URL})?",
    # Versions and addresses in networks, but neither dates nor numbers.
    rf"(?<![\w.,])(?!{_DATE}|{_THOUSANDS})\d{{1,9}}(?:\.\d{{1,9}}){{2,8}}{_BUILD}(?![\w-]|\.\d)",
    r"(?<![\w.,])v\d{1,9}(?:\.\d{1,9}){0,8}(?![\w-]|\.\d)",
    # Codes: COVID-19, AB12345, 978-3-16-148410-0, numbers of orders, hexadecimal numbers.
    r"(?<![\w-])[A-Z]{1,10}[-_]\d[0-9A-Z]{0,40}(?:[-_][0-9A-Z]{1,40}){0,8}(?![\w]|-\w)",
    r"(?<![\w-])[A-Z]{1,6}\d{3,40}[0-9A-Z]{0,40}(?![\w]|-\w)",
    r"(?<![\w-])\d{1,40}(?:-\d{1,40}){2,8}(?:-?[A-Z])?(?![\w]|-\w)",
    r"(?<![\w-])[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(?![\w-])",
    r"(?<!\w)0x[0-9a-fA-F]++(?!\w)",
    # Formulas of numbers and letters: 3 < 4, x = 0.5, 2+2=4.
    rf"(?<![\w.,]){_OPERAND}(?: (?:[<>=]=?|[+*×÷±≤≥≠≈]) {_OPERAND}|(?:[=+*×÷±]|[<>!=]=){_OPERAND})++(?![\w>])",
    # Names in programs: __name__, a_name, aName, call().
    r"(?<!\w)__[^\W_]++(?:_[^\W_]++)*+__(?!\w)",
    r"(?<!\w)_*+[^\W_]++(?:_++[^\W_]++)++_*+(?:\(\))?",
    r"(?<!\w)[a-z]{2}[a-z0-9]*+(?:[A-Z]++[a-z0-9]*+)++(?!\w)(?:\(\))?",
    r"(?<![\w.])[A-Za-z_][\w.]{0,100}\(\)",
    # Emoji, each with what changes it: flags, keycaps, skin colours, sequences with joiners.
    r"[\U0001f1e6-\U0001f1ff]{2}",
    r"[#*0-9]\ufe0f?\u20e3",
    rf"{_PICTOGRAPH}(?:[\U000e0020-\U000e007e]++\U000e007f)?(?:\u200d{_PICTOGRAPH})*+",
)
LITERALS = f"(?P<literal>(?-i:{'|'.join(_LITERALS)}))"

# Every item has one of these signs; most lines have none.
HINT = re.compile(
    r"[%@{:`$#\\/_\u00a9\u00ae\u2022\u203c\u2049\u20e3\u2122\u2139\u2190-\u23ff\u2460-\u24ff\u2500-\u27bf\u2900-\u297f"
    r"\u2b00-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff]|[wW]{3}\.|[.-]\d|\.[a-z]|--|\d{3}|0x|v\d|[a-z][A-Z]"
    r"|\(\)|[<>=+*×÷±≤≥≠≈]"
)


def readable(line: str) -> str:
    """Returns what the patterns are to read of a line; it has as many characters as the line."""
    line = _OTHER_LETTERS.sub(_OTHER_LETTER, line)
    return _MARKS.sub(_LETTER, _AFFIXES.sub(lambda found: _OTHER_LETTER * len(found[0]), line))
