"""A long text that is translated sentence by sentence while its first sentences are already read."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from transduce.errors import ConfigError
from transduce.serve.requests import TranslatedText, TranslationRequest
from transduce.translation.pipeline.joining import gap_between
from transduce.translation.pipeline.protecting import spans_around_items
from transduce.translation.pipeline.sentences import Span, sentence_spans
from transduce.translation.pipeline.text_options import TextOptions


@dataclass(frozen=True, slots=True)
class StreamedPart:
    """The translation of one sentence of a long text."""

    span: Span  # of the source
    text: str  # what it adds to the translation, with the white space before it
    translated: TranslatedText


class CutText:
    """The sentences of a request's text, and how their translations are put together."""

    def __init__(self, request: TranslationRequest, options: TextOptions, language: str) -> None:
        """Cuts the text of a request into sentences.

        Text with HTML, text that is bound as a whole, and text that is not to be split always, is one part.

        Raises:
            ConfigError: the request has not exactly one text.
        """
        if len(request.texts) != 1:
            raise ConfigError(f"Only a single text can be streamed: this request has {len(request.texts)}.")
        [text] = request.texts
        self._request, self._options, self._text = request, options, text
        self._spans: Sequence[Span] = [(0, len(text))]
        is_cut = options.split == "always" and options.markup != "html" and not request.binds_whole_texts
        if is_cut and text.strip():
            cut = sentence_spans if options.markup == "none" else spans_around_items
            self._spans = cut(text, options.language or language)
            self._options = replace(options, split="auto")
        self._num_joined = 0
        self._before = ""  # the translation of the part before

    def groups(self, sizes: Sequence[int]) -> Iterator[TranslationRequest]:
        """Yields requests of so many sentences each, one after another; the last size is that of all further ones."""
        start, number = 0, 0
        while start < len(self._spans):
            end = start + sizes[min(number, len(sizes) - 1)]
            yield self._part_request(self._spans[start:end])
            start, number = end, number + 1

    def _part_request(self, spans: Sequence[Span]) -> TranslationRequest:
        forbidden = self._request.forbidden
        if forbidden and not isinstance(forbidden[0], str):
            forbidden = [forbidden[0]] * len(spans)
        texts = [self._text[slice(*span)] for span in spans]
        return replace(self._request, texts=texts, text_options=self._options, forbidden=forbidden)

    def join(self, translated: TranslatedText) -> StreamedPart:
        """Returns the next part, whose translation this is."""
        index, text = self._num_joined, self._text
        start, end = self._spans[index]
        written = translated.best[0].text
        if index == 0:
            added = text[:start] + written
        else:
            before = self._spans[index - 1]
            added = gap_between(text[before[1] : start], self._before, written, text[slice(*before)]) + written
        if index == len(self._spans) - 1:
            added += text[end:]
        self._num_joined, self._before = index + 1, written
        return StreamedPart((start, end), added, translated)
