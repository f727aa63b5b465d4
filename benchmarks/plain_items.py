"""Whether what is no prose comes back from plain text, and where: in the page, in all protocols, from the command.

    transduce serve MODEL --port 5000
    python benchmarks/plain_items.py MODEL --address http://127.0.0.1:5000 --text test.en --reference test.de

Puts an item into each of 500 sentences, English to German: a URL, an address, a placeholder, a code, a path, a version,
an emoji, a tag. It is at the beginning, at the end, or between an article and a noun whose translation is known. Counts

came back  translations that have the item once, as it was, with white space or a sign next to it
in place   of those: at the beginning, at the end (a full stop may follow), or right before the noun's translation;
           where the translation does not have that word, the place cannot be told

Then the whole text goes through the command, with items kept and not: BLEU, and lines without items that differ.
"""

import argparse
import datetime
import json
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transduce.evaluation import bleu
from transduce.translation.pipeline.markup import scan

NOUNS = {
    "man": "mann", "woman": "frau", "dog": "hund", "boy": "junge", "girl": "mädchen", "child": "kind",
    "street": "straße",
    "ball": "ball", "car": "auto", "field": "feld", "beach": "strand", "horse": "pferd", "bench": "bank",
    "table": "tisch",
    "house": "haus", "book": "buch", "tree": "baum", "guitar": "gitarre", "bike": "fahrrad", "room": "zimmer",
}  # fmt: skip
ITEMS = {
    "URL": ["https://example.org/a?b={}", "http://a-b.example.com/{}#top", "www.example.net/{}"],
    "address": ["me{}@example.org", "first.last+{}@mail.example.com"],
    "placeholder": ["{{name{}}}", "%s", "%(x{})d", "%{}$s", "{{{{x{}}}}}", "$VAR{}", "${{x{}}}", "%d"],
    "code": ["AB-{}", "ISO9{:03}", "order_{}", "`x = {}`", "getName{}()"],
    "path": ["/usr/lib/x{}", "src/main{}.py", "C:\\Users\\me{}", "notes{}.txt"],
    "version": ["1.2.{}", "v{}.0", "10.0.0.{}"],
    "emoji": ["😀", "👍🏽", "👩‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪", "❤️", "1️⃣", "🎉"],
    "tag": ["<b>", "</i>", "<br/>", '<a href="x{}">', "<name{}>", "&amp;"],
}
_PAGE_LINES = 25  # sentences that the page translates at a time
_REQUEST_TEXTS = 20
_ANSWER_SECONDS = 120


@dataclass(frozen=True)
class Case:
    """A sentence with an item."""

    kind: str
    item: str
    text: str
    place: str  # "first", "last", or the translation of the word after the item


def cases(lines: Sequence[str], number: int) -> list[Case]:
    """Returns the first sentences of a text that have a known noun after an article, with items of all kinds."""
    forms = [
        (kind, form) for round_ in range(8) for kind, all_forms in ITEMS.items() for form in all_forms[round_:][:1]
    ]
    found: list[Case] = []
    for line in lines:
        match = re.search(rf"\b[Aa]n? (?=({'|'.join(NOUNS)})\b)", line)
        if match is None or len(found) == number or any(scan(line, "placeholders")):
            continue
        kind, form = forms[len(found) % len(forms)]
        item = form.format(len(found))
        match len(found) // len(forms) % 4:
            case 0:
                found.append(Case(kind, item, f"{item} {line}", "first"))
            case 1:
                found.append(Case(kind, item, f"{line.rstrip(' .')} {item}", "last"))
            case _:
                text = f"{line[: match.end()]}{item} {line[match.end() :]}"
                found.append(Case(kind, item, text, NOUNS[match[1]]))
    return found


def came_back(case: Case, text: str) -> bool:
    """Returns whether the item is in a translation once, and touches no word."""
    return len(re.findall(rf"(?<![^\W_]){re.escape(case.item)}(?![^\W_])", text)) == 1 == text.count(case.item)


def in_place(case: Case, text: str) -> bool | None:
    """Returns whether the item is where it belongs; None if that cannot be told."""
    before, _, after = text.partition(case.item)
    if case.place == "first":
        return not before.strip()
    if case.place == "last":
        return not after.strip(" .")
    if case.place not in text.lower():
        return None
    following = re.search(r"\w+", after)
    return following is not None and case.place in following[0].lower()


def judged(all_cases: Sequence[Case], texts: Sequence[str]) -> dict[str, Any]:
    """Returns the figures of one way to translate."""
    good = [(case, text) for case, text in zip(all_cases, texts, strict=True) if came_back(case, text)]
    places = [(case.place in ("first", "last"), in_place(case, text)) for case, text in good]
    inner = Counter(found for is_edge, found in places if not is_edge)
    edges = Counter(found for is_edge, found in places if is_edge)
    lost = [{"source": c.text, "translation": t} for c, t in zip(all_cases, texts, strict=True) if (c, t) not in good]
    return {
        "sentences": len(texts),
        "came_back": len(good),
        "lost_by_kind": dict(Counter(c.kind for c, t in zip(all_cases, texts, strict=True) if not came_back(c, t))),
        "at_its_end": {"right": edges[True], "wrong": edges[False]},
        "before_its_noun": {"right": inner[True], "wrong": inner[False], "noun_not_found": inner[None]},
        "lost": lost[:10],
    }


def posted(address: str, fields: Any, *, form: bool = False) -> Any:
    """Returns the answer to a request, as JSON or as a form."""
    body = urllib.parse.urlencode(fields, doseq=True) if form else json.dumps(fields)
    headers = {"Content-Type": "application/x-www-form-urlencoded" if form else "application/json"}
    with urllib.request.urlopen(
        urllib.request.Request(address, body.encode(), headers), None, _ANSWER_SECONDS
    ) as answer:
        return json.load(answer)


def in_parts(translate: Callable[[list[str]], list[str]], texts: list[str]) -> list[str]:
    """Returns the translations of texts that are sent a few at a time."""
    return [text for at in range(0, len(texts), _REQUEST_TEXTS) for text in translate(texts[at : at + _REQUEST_TEXTS])]


def by_own(address: str, texts: list[str], warnings: list[str]) -> list[str]:
    """Translates by the service's own protocol, and adds to the warnings."""
    found = posted(f"{address}/api/translate", {"text": texts, "source": "en", "target": "de"})
    warnings += [warning for each in found["translations"] for warning in each["warnings"]]
    return [each["text"] for each in found["translations"]]


def by_libretranslate(address: str, texts: list[str]) -> list[str]:
    """Translates by the protocol of LibreTranslate."""
    return list(posted(f"{address}/translate", {"q": texts, "source": "en", "target": "de"})["translatedText"])


def by_deepl(address: str, texts: list[str]) -> list[str]:
    """Translates by the protocol of DeepL."""
    fields = {"text": texts, "source_lang": "EN", "target_lang": "DE"}
    return [each["text"] for each in posted(f"{address}/v2/translate", fields, form=True)["translations"]]


def by_page(address: str, texts: list[str]) -> list[str]:
    """Types the texts into the page, as many lines at once, and reads its translations."""
    from playwright.sync_api import sync_playwright

    found: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(address)
        page.wait_for_selector("html[data-ready]")
        page.select_option("#source", "en")
        page.select_option("#target", "de")
        for start in range(0, len(texts), _PAGE_LINES):
            part = texts[start : start + _PAGE_LINES]
            page.fill("#text", "")
            page.wait_for_timeout(200)
            page.fill("#text", "\n".join(part))
            for _ in range(10 * _ANSWER_SECONDS):
                page.wait_for_timeout(100)
                lines = page.input_value("#output").split("\n")
                if len(lines) == len(part) and all(line.strip() for line in lines):
                    break
            page.wait_for_timeout(300)
            found += page.input_value("#output").split("\n")
        browser.close()
    return found


def by_command(model: Path, texts: Sequence[str], *options: str) -> list[str]:
    """Translates by `transduce translate`."""
    with tempfile.TemporaryDirectory() as folder:
        source, output = Path(folder) / "source", Path(folder) / "output"
        source.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
        command = [sys.executable, "-m", "transduce", "translate", str(model), "--source", str(source)]
        subprocess.run([*command, "--output", str(output), "--quiet", *options], check=True)
        return output.read_text(encoding="utf-8").splitlines()


def prose(model: Path, lines: Sequence[str], references: Sequence[str]) -> dict[str, Any]:
    """Compares the translations of a text with items kept and not."""
    kept, before = (by_command(model, lines, *options) for options in ((), ("--markup", "none")))
    plain = [index for index, line in enumerate(lines) if not any(scan(line, "placeholders"))]
    return {
        "lines": len(lines),
        "lines_with_items": len(lines) - len(plain),
        "other_lines_that_differ": sum(kept[index] != before[index] for index in plain),
        "bleu": {name: round(bleu(out, [references]).value, 2) for name, out in (("kept", kept), ("none", before))},
    }


def main() -> None:
    """Measures, prints and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--address", required=True, help="of a service with this model")
    parser.add_argument("--text", type=Path, required=True, help="English lines")
    parser.add_argument("--reference", type=Path, required=True, help="their translations into German")
    parser.add_argument("--items", type=int, default=500)
    parser.add_argument("--lines", type=int, default=1000, help="for BLEU")
    parser.add_argument("--name", default="", help="of the model, for the result")
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    lines, references = (path.read_text(encoding="utf-8").splitlines() for path in (args.text, args.reference))
    all_cases = cases(lines, args.items)
    texts = [case.text for case in all_cases]
    warnings: list[str] = []
    ways: dict[str, Callable[[], list[str]]] = {
        "command": lambda: by_command(args.model, texts),
        "command, --markup none": lambda: by_command(args.model, texts, "--markup", "none"),
        "own protocol": lambda: in_parts(lambda part: by_own(args.address, part, warnings), texts),
        "protocol of LibreTranslate": lambda: in_parts(lambda part: by_libretranslate(args.address, part), texts),
        "protocol of DeepL": lambda: in_parts(lambda part: by_deepl(args.address, part), texts),
        "page": lambda: by_page(args.address, texts),
    }
    result: dict[str, Any] = {"date": datetime.date.today().isoformat(), "model": args.name}
    result["kinds"] = dict(Counter(case.kind for case in all_cases))
    for name, translate in ways.items():
        result[name] = judged(all_cases, translate())
        print(name, {key: value for key, value in result[name].items() if key != "lost"}, flush=True)
    result["own protocol"]["named_in_a_warning"] = sum("is not in the translation" in each for each in warnings)
    result["prose"] = prose(args.model, lines[: args.lines], references[: args.lines])
    print(result["prose"])
    if args.output is not None:
        args.output.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
