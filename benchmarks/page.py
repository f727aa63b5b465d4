"""How fast the service's page is, and how many keys it saves, in Chromium against a running `transduce serve`.

    transduce serve runs/tiny --port 5000 --quantization int8
    python benchmarks/page.py load live prefix --address http://127.0.0.1:5000 --text test.en --output result.json
    python benchmarks/page.py keys --address http://127.0.0.1:5000 --text test.en --reference test.de

load    bytes of the first load; milliseconds until the field takes text, and until the languages are there
live    how far the translation is behind while lines are typed, 8 characters a second: from each key to the first
        translation of a text that has it
prefix  milliseconds from the request to the suggestion, where half of a translation is given
keys    keys for typing each reference against the suggestion, in share of typing all of it. A key is a character, a
        word that is accepted, or the rest of the sentence that is accepted. Beside it: mending the first translation,
        in the fewest characters that are inserted, deleted or replaced
"""

import argparse
import datetime
import json
import os
import platform
import shutil
import time
import urllib.request
from pathlib import Path
from typing import Any

_LOADS = 9
_LONGEST_TYPED = 200  # characters of a line
# Remembers when each text was typed, and how long it took until a translation was shown that is as new or newer.
_WATCH = """async () => {
  const { passage } = await import("./page/passage.js");
  const { sourceOf } = await import("./page/segments.js");
  const typed = [];
  let shown = -1;
  window.behind = [];
  document.querySelector("#text").addEventListener("input", ({ target }) => {
    typed.push({ text: target.value.trim(), at: performance.now() });
  });
  passage.addEventListener("change", () => {
    const source = sourceOf(passage.segments).trim();
    const index = typed.findLastIndex(({ text }) => text === source);
    for (; shown < index; shown += 1) window.behind.push(performance.now() - typed[shown + 1].at);
  });
}"""


def _summary(milliseconds: list[float]) -> dict[str, float]:
    ordered = sorted(milliseconds)
    at = {"median": 0.5, "p90": 0.9}
    return {name: round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 1) for name, share in at.items()}


def _opened(browser: Any, args: argparse.Namespace) -> Any:
    page = browser.new_context().new_page()
    page.goto(args.address)
    page.wait_for_selector("html[data-ready]")
    page.select_option("#source", args.source)
    page.select_option("#target", args.target)
    return page


def load(browser: Any, args: argparse.Namespace, _: list[str]) -> dict[str, Any]:
    """Measures the first load, each time in a browser context of its own."""
    interactive, ready = [], []
    for _ in range(_LOADS):
        page = browser.new_context().new_page()
        sizes: list[int] = []
        page.on("response", lambda answer, sizes=sizes: sizes.append(len(answer.body())))
        page.goto(args.address)
        page.wait_for_selector("html[data-ready]")
        interactive.append(page.evaluate("performance.getEntriesByType('navigation')[0].domInteractive"))
        ready.append(float(page.get_attribute("html", "data-ready")))
        page.context.close()
    return {"bytes": sum(sizes), "can_type_ms": _summary(interactive), "ready_ms": _summary(ready)}


def live(browser: Any, args: argparse.Namespace, lines: list[str]) -> dict[str, Any]:
    """Types lines one after another and watches how far the translation is behind."""
    page = _opened(browser, args)
    page.evaluate(_WATCH)
    end = time.monotonic() + args.seconds
    for line in lines:
        page.fill("#text", "")
        for character in line[:_LONGEST_TYPED]:
            page.keyboard.type(character)
            page.wait_for_timeout(1000 / args.speed)
        if time.monotonic() > end:
            break
    return {"behind_ms": _summary(page.evaluate("window.behind"))}


def prefix(browser: Any, args: argparse.Namespace, lines: list[str]) -> dict[str, Any]:
    """Asks for the second half of translations, as the page does."""
    page = _opened(browser, args)
    milliseconds = []
    for line in lines[: args.sentences]:
        fields = {"text": line, "source": args.source, "target": args.target, "confidence": False, "alignment": False}
        words = _translated(args, fields).split()
        fields["prefix"] = " ".join(words[: len(words) // 2])
        asking = """async (fields) => {
          const { ask } = await import("./page/requests.js");
          const start = performance.now();
          await ask("api/translate", { fields });
          return performance.now() - start;
        }"""
        milliseconds.append(page.evaluate(asking, fields))
    return {"suggestion_ms": _summary(milliseconds)}


def keys(_: Any, args: argparse.Namespace, lines: list[str]) -> dict[str, Any]:
    """Types references against the suggestion."""
    references = args.reference.read_text(encoding="utf-8").splitlines()
    total = pressed = mended = 0
    for line, reference in list(zip(lines, references, strict=False))[: args.sentences]:
        fields = {"text": line, "source": args.source, "target": args.target, "confidence": False, "alignment": False}
        total += len(reference)
        mended += _distance(_translated(args, fields), reference)
        pressed += _pressed(args, fields, reference)
    return {"typed": total, "keys": round(pressed / total, 3), "mending": round(mended / total, 3)}


def _pressed(args: argparse.Namespace, fields: dict[str, Any], reference: str) -> int:
    """Returns the keys for one reference."""
    number, written = 0, ""
    suggested = _translated(args, fields)
    while written != reference:
        number += 1
        rest = suggested[len(written) :] if suggested.startswith(written) else ""
        if written + rest == reference:
            break
        word = rest[: len(rest) - len(rest.lstrip())] + (rest.split(maxsplit=1)[0] if rest.strip() else "")
        following = reference[len(written) + len(word) :]
        if word and reference.startswith(written + word) and (not following or following[0] == " "):
            written += word
            continue
        written += reference[len(written)]
        if not suggested.startswith(written):
            suggested = _translated(args, fields | {"prefix": written})
    return number


def _distance(one: str, other: str) -> int:
    """Returns the fewest characters that are inserted, deleted or replaced (Levenshtein)."""
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        last, row[0] = row[0], i
        for j, b in enumerate(other, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (a != b))
    return row[-1]


def _translated(args: argparse.Namespace, fields: dict[str, Any]) -> str:
    body, headers = json.dumps(fields).encode(), {"Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(f"{args.address}/api/translate", body, headers)) as answer:
        return str(json.load(answer)["translations"][0]["text"])


MEASUREMENTS = {"load": load, "live": live, "prefix": prefix, "keys": keys}


def main() -> None:
    """Runs the chosen measurements, prints the results, and writes them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measurements", nargs="+", choices=MEASUREMENTS)
    parser.add_argument("--address", default="http://127.0.0.1:5000", help="of the service")
    parser.add_argument("--source", default="en")
    parser.add_argument("--target", default="de")
    parser.add_argument("--text", type=Path, required=True, help="lines of the source language")
    parser.add_argument("--reference", type=Path, help="their translations, for `keys`")
    parser.add_argument("--words", type=int, default=0, help="use only lines of so many words; 0: all")
    parser.add_argument("--sentences", type=int, default=100, help="for `prefix` and `keys`")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long `live` types")
    parser.add_argument("--speed", type=float, default=8.0, help="characters a second")
    parser.add_argument("--name", default="", help="of the model, for the result")
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    if "keys" in args.measurements and (args.reference is None or args.words):
        parser.error("keys needs --reference, and all lines: no --words")
    lines = args.text.read_text(encoding="utf-8").splitlines()
    lines = [line for line in lines if not args.words or len(line.split()) == args.words]

    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        found = {name: MEASUREMENTS[name](browser, args, lines) for name in args.measurements}
        browser.close()
    machine = {"cores": os.cpu_count(), "processor": platform.processor() or platform.machine()}
    result = {"date": datetime.date.today().isoformat(), "model": args.name, "machine": machine} | found
    print(json.dumps(result, indent=1))
    if args.output is not None:
        args.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
