// The parts of a translation that the user typed, chose or accepted: spans of offsets in a segment's text.

/** Returns the spans after an edit at an offset: what was removed is cut out, and what was inserted is the user's own. */
export function spansAfter(spans, at, removed, inserted) {
  const end = at + removed;
  const moved = inserted - removed;
  const kept = spans.flatMap(([from, to]) => [
    [from, Math.min(to, at)],
    [Math.max(from, end) + moved, to + moved],
  ]);
  return [...kept, [at, at + inserted]].filter(([from, to]) => from < to);
}

/** Returns what of the spans lies before an offset. */
export const spansBefore = (spans, offset) => spansAfter(spans, offset, Infinity, 0);

/** Returns whether some of a part of a segment's text is the user's own. */
export const isOwn = ({ ownSpans }, { start, end }) => ownSpans.some(([from, to]) => from < end && to > start);
