// A text as segments: sentences with the white space before them, and the translation of each.
//
// The service cuts a text into sentences. When the text changes, the segments around the change stay, and only what
// lies between them is translated again.

const UNSPACED = new Set(["ja", "km", "lo", "my", "th", "yue", "zh"]); // written without spaces between words
export const ENDS = /[.!?…。！？؟।]["'”’»)\]]*$/u;

/** Returns the segment for a sentence that the service translated; spans become UTF-16 offsets. */
export function newSegment(source, gap, added, translation) {
  const at = translation.text ? Math.max(0, added.lastIndexOf(translation.text)) : 0;
  const targetGap = added.slice(0, at);
  const segment = { source, gap, targetGap, ownGap: targetGap, isClosed: false, isEdited: false, isNew: false, ownSpans: [] };
  return describe(segment, translation);
}

/** Enters what a translation knows about itself. */
export function describe(segment, translation) {
  const { text } = translation;
  const inSource = unitsOf(segment.source);
  const inTarget = unitsOf(text);
  return Object.assign(segment, {
    text,
    fixed: 0, // characters at the beginning that the user wrote or accepted
    isDetailed: translation.confidence !== null || !text,
    words: wordsOf(text, translation.words),
    links: translation.alignment.map(({ source, target }) => ({
      source: source.map(inSource),
      target: target.map(inTarget),
    })),
    translation,
    version: (segment.version ?? 0) + 1,
  });
}

/** Returns whether what is known of a segment's translation is of its present text. */
export const isPresent = ({ text, translation }) => text === translation.text;

/** Returns a function from offsets in code points, which the service counts, to those in UTF-16, which scripts do. */
export function unitsOf(text) {
  if (!/[\ud800-\udbff]/.test(text)) return (offset) => offset;
  const offsets = [0];
  for (const character of text) offsets.push(offsets.at(-1) + character.length);
  return (offset) => offsets[offset] ?? text.length;
}

function wordsOf(text, words) {
  let end = 0;
  return words.map(({ text: word, probability }) => {
    const start = Math.max(text.indexOf(word, end), end);
    end = start + word.length;
    return { start, end, probability };
  });
}

/** Returns the sentences of a text as [{gap, text}], where `gap` is the white space before one; none in an old browser. */
export function sentencesOf(text) {
  if (!Intl.Segmenter) return [];
  const found = [];
  let gap = "";
  for (const { segment } of new Intl.Segmenter(undefined, { granularity: "sentence" }).segment(text)) {
    const sentence = segment.trim();
    if (sentence) found.push({ gap: gap + /^\s*/.exec(segment)[0], text: sentence });
    gap = sentence ? /\s*$/.exec(segment)[0] : gap + segment;
  }
  if (found.length) found.at(-1).text += gap;
  return found;
}

/** Returns the translation of segments, with the white space between them. */
export const targetOf = (segments) => segments.map(({ targetGap, text }) => targetGap + text).join("");

/**
 * Returns how many segments at the beginning and at the end of a changed text are still right, and the span of the text
 * between them.
 */
export function reused(segments, text) {
  const end = text.trimEnd().length;
  let head = 0;
  let start = 0;
  while (head < segments.length) {
    const { gap, source } = segments[head];
    if (!text.startsWith(gap + source, start)) break;
    start += gap.length + source.length;
    head += 1;
  }
  if (head === segments.length && start >= end) return { head, tail: 0, start, end: start };
  if (head && mayGoOn(segments[head - 1], text.slice(start))) {
    head -= 1;
    start -= segments[head].gap.length + segments[head].source.length;
  }
  let tail = 0;
  let stop = end;
  while (tail < segments.length - head) {
    const { gap, source } = segments[segments.length - 1 - tail];
    const from = stop - source.length - gap.length;
    if (from < start || !text.startsWith(gap + source, from) || !gap) break;
    stop = from;
    tail += 1;
  }
  // What ends without a full stop may belong to the sentence after it.
  while (tail && start < stop && !ENDS.test(text.slice(start, stop)) && !segments.at(-tail).gap.includes("\n")) {
    const { gap, source } = segments.at(-tail);
    stop += gap.length + source.length;
    tail -= 1;
  }
  return { head, tail, start, end: stop };
}

/** Returns whether the sentence could be longer than the segment, with what follows it now. */
function mayGoOn(segment, rest) {
  if (/^\s*\n/.test(rest)) return false;
  const isClosed = segment.isClosed || (segment.isEdited && ENDS.test(segment.source)); // a wording is of one sentence
  return !isClosed || !/^\s/.test(rest);
}

/** Returns the white space between two translations, where that of the sources says nothing. */
export function joint(targetGap, language) {
  const unspaced = UNSPACED.has(language.split("-")[0]);
  if (targetGap === "" && !unspaced) return " ";
  return targetGap === " " && unspaced ? "" : targetGap;
}
