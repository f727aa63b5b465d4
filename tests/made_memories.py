"""Translation memories for tests."""

from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path


def unit(segments: Mapping[str, str]) -> str:
    """Returns a unit with a variant of each language, in this order."""
    variants = (
        f'<tuv xml:lang="{code}">\n      <seg>{escape(text)}</seg>\n    </tuv>' for code, text in segments.items()
    )
    return f"<tu>\n    {''.join(variants)}\n  </tu>"


def write_memory(path: Path, units: Iterable[Mapping[str, str]], *, source: str = "en-US") -> Path:
    """Writes a memory of units, each a text by language, and returns its path."""
    header = (
        f'<?xml version="1.0"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx version="1.4"><header srclang="{source}"/>'
    )
    body = "\n  ".join(map(unit, units))
    path.write_text(f"{header}\n<body>\n  {body}\n</body></tmx>\n", encoding="utf-8")
    return path
