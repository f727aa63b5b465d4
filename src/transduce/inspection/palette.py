"""One colour a head, the same in pictures and on the page."""

import colorsys

# Distinct on white and on near-black, next to each other, and for most colour-blind readers.
_CHOSEN = ("#3a78d6", "#e07b1a", "#23a06b", "#d2455a", "#8d62d6", "#a8742c", "#d665a8", "#1ba1b5")
_GOLDEN_ANGLE = 0.381966  # of a turn: hues that never come close to each other for long


def head_colours(num_heads: int) -> list[str]:
    """Returns a colour for each head, as "#rrggbb"."""
    return [_CHOSEN[head] if head < len(_CHOSEN) else _generated(head) for head in range(num_heads)]


def _generated(head: int) -> str:
    lightness = 0.42 + 0.08 * (head % 3)
    channels = colorsys.hls_to_rgb(head * _GOLDEN_ANGLE % 1.0, lightness, 0.6)
    return "#" + "".join(f"{round(255 * channel):02x}" for channel in channels)
