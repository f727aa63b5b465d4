"""YAML: values that are texts are translated; keys, numbers, comments and layout stay.

PyYAML tells where each value is. A translation keeps the style of its source where that can hold it.
"""

import json
import re
from collections.abc import Collection, Iterator
from functools import partial

import yaml

from transduce.translation.documents.messages import message_pieces
from transduce.translation.documents.plain_text import lines_of
from transduce.translation.documents.segments import Piece, SegmentError

# The parser in C, where PyYAML has it, is ten times as fast; it counts characters too.
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_RESOLVER = yaml.resolver.Resolver()
_BREAKS = re.compile("[\x85\u2028\u2029]")
_STRING = "tag:yaml.org,2002:str"
_FLOW_STARTS = (yaml.FlowMappingStartToken, yaml.FlowSequenceStartToken)
_FLOW_ENDS = (yaml.FlowMappingEndToken, yaml.FlowSequenceEndToken)


def read_yaml(text: str, keys: Collection[str] | None = None) -> Iterator[Piece]:
    """Yields the pieces of a YAML document.

    Args:
        text: the document.
        keys: those whose values are translated; None: all.

    Raises:
        SegmentError: it is not YAML.
    """
    position = 0
    try:
        for _ in yaml.parse(text, _Loader):  # the scanner alone accepts brackets that nothing ends
            pass
        for token, in_flow in _values(text, keys):
            start, end = token.start_mark.index, token.end_mark.index
            source = text[start:end]
            if token.style in ("|", ">"):
                source = source[: len(source.rstrip())]
            elif token.plain and _RESOLVER.resolve(yaml.ScalarNode, token.value, (True, False)) != _STRING:
                continue
            yield text[position:start]
            position = start + len(source)
            if token.style in ("|", ">"):
                yield from _block(source, token.value)
            else:
                yield from message_pieces(token.value, source, partial(_written, token.style, in_flow))
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark is not None else ""
        raise SegmentError(f"{line}is not YAML: {error.problem}.") from None
    except yaml.YAMLError as error:
        raise SegmentError(f"is not YAML: {error}.") from None
    yield text[position:]


def _values(text: str, keys: Collection[str] | None) -> Iterator[tuple[yaml.ScalarToken, bool]]:
    """Yields the tokens of values without a tag, and whether each is within brackets."""
    is_key = is_tagged = False
    depth = 0
    key = ""
    for token in yaml.scan(text, _Loader):
        depth += isinstance(token, _FLOW_STARTS) - isinstance(token, _FLOW_ENDS)
        if isinstance(token, yaml.ScalarToken):
            if is_key:
                key = token.value
            elif not is_tagged and (keys is None or key in keys):
                yield token, depth > 0
        if not isinstance(token, yaml.AnchorToken):
            is_key = isinstance(token, yaml.KeyToken) or (is_key and isinstance(token, yaml.TagToken))
            is_tagged = isinstance(token, yaml.TagToken) and not (token.value[0] == "!!" and token.value[1] == "str")


def _block(source: str, value: str) -> Iterator[Piece]:
    """Yields the pieces of a text of several lines after "|" or ">"."""
    (header, end), *body = lines_of(source)
    first = next(line for line, _ in [*body, ("x", "")] if line.strip())
    words = next((line for line in value.split("\n") if line.strip()), "")
    indent = first[: len(first) - len(first.lstrip(" ")) - (len(words) - len(words.lstrip(" ")))]

    def encode(text: str) -> str:
        lines = text.rstrip("\n")
        if _BREAKS.search(lines):  # YAML 1.1 reads them as line ends
            return _double_quoted(lines + value[len(value.rstrip()) :])
        style = header
        if header.startswith(">"):
            if re.search(r"^[ \t]", lines, re.MULTILINE):  # such lines are not joined
                style = "|" + header[1:]
            else:
                lines = re.sub(r"\n+", lambda match: match[0] + "\n", lines)
        return style + end + end.join(indent + line if line else "" for line in lines.split("\n"))

    return message_pieces(value.rstrip(), source, encode)  # as `source` is


def _written(style: str | None, in_flow: bool, text: str) -> str:
    """Returns a text between the quotation marks of its source, or in those that it needs."""
    analysis = yaml.emitter.Emitter(None, allow_unicode=True).analyze_scalar(text)
    may_be_plain = analysis.allow_flow_plain if in_flow else analysis.allow_block_plain
    is_plain = may_be_plain and _RESOLVER.resolve(yaml.ScalarNode, text, (True, False)) == _STRING
    if not style and is_plain and not analysis.multiline:
        return text
    if style != '"' and analysis.allow_single_quoted and not analysis.multiline:
        return "'" + text.replace("'", "''") + "'"
    return _double_quoted(text)


def _double_quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x85", "\\N").replace("\u2028", "\\L").replace("\u2029", "\\P")
