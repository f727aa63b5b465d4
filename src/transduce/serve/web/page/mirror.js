// Draws both texts under their fields: each word on its own, so that words can be shaded, marked and pointed at.
//
// Words of a source are not shaded. So a sentence of it is drawn as plain text until one of its words is looked for: a
// line of ten thousand characters, which the browser lays out anew with each key, then has a few pieces only.

import { part } from "./dom.js";
import { isOwn } from "./own_spans.js";
import { passage } from "./passage.js";
import { isPresent } from "./segments.js";

const drawn = { text: new WeakMap(), output: new WeakMap() }; // by side and segment: {version, element}
const described = new WeakMap(); // by the element of a word: {side, segment, start, end, probability, isOwn}
const segments = new WeakMap(); // by the element of a sentence
const undivided = new WeakMap(); // by the element of a source sentence that is plain text: what draws its words
const UNSURE = 0.5; // a word below this probability is shaded, the less probable the more strongly
const WORD = /[\p{L}\p{N}]/u;
const COMPOUND = /(?<![\p{L}\p{N}\p{M}])[\p{L}\p{N}\p{M}]+(?:[-‐'’][\p{L}\p{N}\p{M}]+)+/gu; // the service links its parts one by one

/** Returns what is known of the word whose element this is. */
export const wordOf = (element) => described.get(element);

/** Draws what has changed. */
export function draw() {
  const { head, tail } = passage.reused;
  const { segments, text } = passage;
  const isStale = (index) => index >= head && index < segments.length - tail;
  drawSource(segments.slice(0, head), tail ? segments.slice(-tail) : [], text);
  fill(
    "output",
    segments.map((segment, index) => {
      const gap = lineStart(segment.targetGap, index);
      return [elementOf("output", segment, isStale(index), () => targetPieces(segment), gap), gap.isNew];
    }),
  );
}

function drawSource(before, after, text) {
  const length = (segments) => segments.reduce((sum, { gap, source }) => sum + gap.length + source.length, 0);
  const start = length(before);
  const end = after.length ? text.trimEnd().length - length(after) : text.length;
  const rest = after.length ? text.slice(text.trimEnd().length) : "";
  const plain = (written, index) => {
    const gap = lineStart(/^\s*/.exec(written)[0], index);
    return [document.createTextNode(gap.shown + written.trimStart()), gap.isNew];
  };
  const ofSegment = (segment, index) => {
    const gap = lineStart(segment.gap, index);
    return [elementOf("text", segment, false, () => sourcePieces(segment), gap), gap.isNew];
  };
  fill("text", [
    ...before.map(ofSegment),
    plain(text.slice(start, end), before.length),
    ...after.map((segment, index) => ofSegment(segment, before.length + 1 + index)),
    ...(rest ? [plain(rest, 1)] : []),
  ]);
}

/** Returns whether the white space before a part of a text begins a new line, and what of it that line shows. */
function lineStart(gap, index) {
  const isNew = index > 0 && gap.includes("\n");
  return { isNew, shown: isNew ? gap.slice(gap.indexOf("\n") + 1) : gap };
}

/**
 * Makes a mirror show nodes, given as [node, whether a new line begins with it].
 *
 * Each line is a block, and what is unchanged stays in the document: so the browser lays out only the lines that changed.
 */
function fill(side, nodes) {
  const lines = [[]];
  for (const [node, isNew] of nodes) {
    if (isNew) lines.push([]);
    lines.at(-1).push(node);
  }
  const mirror = part(`${side}-mirror`);
  const [head] = sameAtEnds([...mirror.children], lines, (line, wanted) => {
    const { childNodes } = line;
    return childNodes.length === wanted.length && wanted.every((node, index) => isSame(childNodes[index], node));
  });
  while (mirror.children.length > lines.length) mirror.children[head].remove();
  while (mirror.children.length < lines.length) mirror.insertBefore(document.createElement("div"), mirror.children[head] ?? null);
  lines.forEach((wanted, index) => fillLine(mirror.children[index], wanted));
}

const isSame = (a, b) => a === b || (a.nodeType === Node.TEXT_NODE && b.nodeType === Node.TEXT_NODE && a.data === b.data);

/** Returns how many items at the beginning and at the end of two lists are the same. */
function sameAtEnds(old, wanted, same) {
  const most = Math.min(old.length, wanted.length);
  let head = 0;
  while (head < most && same(old[head], wanted[head])) head += 1;
  let tail = 0;
  while (tail < most - head && same(old.at(-1 - tail), wanted.at(-1 - tail))) tail += 1;
  return [head, tail];
}

function fillLine(line, wanted) {
  const old = [...line.childNodes];
  const [head, tail] = sameAtEnds(old, wanted, isSame);
  for (const each of old.slice(head, old.length - tail)) each.remove();
  const fresh = wanted.slice(head, wanted.length - tail);
  if (fresh.length && tail) old.at(-tail).before(...fresh);
  else line.append(...fresh);
}

function elementOf(side, segment, isStale, pieces, gap) {
  const { isEdited, fixed, ownSpans, text } = segment;
  const version = `${segment.version} ${isEdited && fixed} ${ownSpans} ${gap.shown} ${text}`;
  let found = drawn[side].get(segment);
  if (found?.version !== version) {
    const element = document.createElement("span");
    element.className = "segment";
    const words = () => element.replaceChildren(gap.shown, ...pieces());
    if (side === "text") {
      element.append(gap.shown + segment.source);
      undivided.set(element, words);
    } else words();
    found = { version, element };
    drawn[side].set(segment, found);
    segments.set(element, segment);
  }
  found.element.classList.toggle("stale", isStale);
  return found.element;
}

/** Draws the words of a sentence that was plain text until now; returns its element. */
function divided(element) {
  undivided.get(element)?.();
  undivided.delete(element);
  return element;
}

function sourcePieces(segment) {
  const spans = new Map(segment.links.map(({ source: [start, end] }) => [start, { start, end }]));
  const units = wholeWords(segment.source, [...spans.values()]);
  return piecesOf("text", segment, segment.source, units, segment.source.length);
}

function targetPieces(segment) {
  const end = segment.isEdited ? segment.fixed : segment.text.length;
  return piecesOf("output", segment, segment.text, unitsOfTarget(segment), end);
}

/** Returns the words of a translation: as they are linked, else as they were written, with their probabilities. */
export function unitsOfTarget(segment) {
  const plain = () => [...segment.text.matchAll(/[\p{L}\p{N}][^\s]*/gu)].map(unitOfMatch);
  if (!isPresent(segment)) return plain();
  const linked = segment.links.map(({ target: [start, end] }) => ({ start, end }));
  const units = wholeWords(segment.text, linked.length ? linked : segment.words.map(({ start, end }) => ({ start, end })));
  for (const unit of units) {
    unit.probability = segment.words.find(({ start, end }) => start < unit.end && end > unit.start)?.probability;
    unit.isOwn = isOwn(segment, unit);
  }
  return units.length ? units : plain();
}

/** Returns the units in their order; those of a word with hyphens or apostrophes are one. */
function wholeWords(text, units) {
  let found = units;
  for (const compound of [...text.matchAll(COMPOUND)].map(unitOfMatch)) {
    const isOutside = ({ start, end }) => end <= compound.start || start >= compound.end;
    const outside = found.filter(isOutside);
    if (outside.length < found.length) found = [...outside, compound];
  }
  return found.toSorted((a, b) => a.start - b.start);
}

const unitOfMatch = (match) => ({ start: match.index, end: match.index + match[0].length });

/** Returns the nodes of a text with an element for each unit; what comes after `suggestedFrom` is grey. */
function piecesOf(side, segment, text, units, suggestedFrom) {
  const nodes = [];
  let at = 0;
  const plain = (end) => {
    for (const [from, to] of [[at, Math.min(end, suggestedFrom)], [Math.max(at, suggestedFrom), end]]) {
      if (to <= from) continue;
      const piece = document.createElement("span");
      piece.className = from >= suggestedFrom ? "ghost" : "";
      piece.textContent = text.slice(from, to);
      nodes.push(piece.className ? piece : piece.textContent);
    }
    at = Math.max(at, end);
  };
  for (const unit of units) {
    if (unit.start < at || !WORD.test(text.slice(unit.start, unit.end))) continue;
    plain(unit.start);
    const element = document.createElement("span");
    element.className = unit.start >= suggestedFrom ? "word ghost" : "word";
    if (isUnsure(unit)) shade(element, unit.probability);
    element.textContent = text.slice(unit.start, unit.end);
    if (unit.start < suggestedFrom && unit.end > suggestedFrom) splitAt(element, suggestedFrom - unit.start);
    described.set(element, { side, segment, ...unit });
    nodes.push(element);
    at = unit.end;
  }
  plain(text.length);
  return nodes;
}

function splitAt(element, offset) {
  const text = element.textContent;
  const rest = document.createElement("span");
  rest.className = "ghost";
  rest.textContent = text.slice(offset);
  element.replaceChildren(text.slice(0, offset), rest);
}

/** Returns whether a word is shaded: the model wrote it, and was not sure. */
export const isUnsure = ({ probability = 1, isOwn: isUsers }) => !isUsers && probability < UNSURE;

/** Shades a word by how unsure it is, and underlines it, the thicker the less sure. */
function shade(element, probability) {
  const doubt = 1 - probability / UNSURE; // from 0, just unsure, to 1
  element.classList.add("unsure");
  element.style.setProperty("--doubt", `${Math.round(12 + 36 * doubt)}%`);
  element.style.setProperty("--line-width", `${1 + Math.round(2 * doubt)}px`);
}

/** Returns the element of a segment, on one side. */
export const elementOfSegment = (side, segment) => drawn[side].get(segment)?.element;

/** Returns the segment of a translated word, or of the text, under a point of the screen. */
export function segmentAtPoint(x, y) {
  const element = document.elementsFromPoint(x, y).find((each) => segments.has(each));
  return segments.get(element);
}

/** Returns the element of the word at an offset of a segment's text, on one side. */
export function elementAt(side, segment, offset) {
  const element = divided(drawn[side].get(segment)?.element);
  return [...(element?.querySelectorAll(".word") ?? [])].find((each) => {
    const { start, end } = described.get(each);
    return start <= offset && offset <= end;
  });
}

/** Returns the element of the last word that begins before an offset of a translated segment. */
export function elementBefore(segment, offset) {
  const words = [...(drawn.output.get(segment)?.element.querySelectorAll(".word") ?? [])];
  return words.findLast((each) => described.get(each).start <= offset);
}

/** Returns the elements of the words of a segment that meet one of the spans, on one side. */
export function elementsAt(side, segment, spans) {
  const element = divided(drawn[side].get(segment)?.element);
  return [...(element?.querySelectorAll(".word") ?? [])].filter((each) => {
    const { start, end } = described.get(each);
    return spans.some(([from, to]) => from < end && to > start);
  });
}

/** Returns the word under a point of the screen, or undefined. */
export function wordAtPoint(x, y) {
  document.elementsFromPoint(x, y).forEach(divided);
  for (const element of document.elementsFromPoint(x, y)) {
    const word = element.closest(".word");
    if (word) return word;
  }
  return undefined;
}
