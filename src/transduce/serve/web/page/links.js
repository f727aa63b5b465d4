// Marks the word under the pointer or the cursor, and its counterpart in the other text.

import { part, percent } from "./dom.js";
import { elementAt, elementOfSegment, elementsAt, segmentAtPoint, wordAtPoint, wordOf } from "./mirror.js";
import { passage } from "./passage.js";
import { isPresent } from "./segments.js";

let marked = [];
let paired = []; // the elements of a sentence and its translation
let pairedSegment;
let follows = false; // whether the word at the cursor is marked, and not one under the pointer

/** Starts to watch pointer and cursor. */
export function startLinks() {
  let frame = 0;
  passage.addEventListener("change", () => {
    const id = document.activeElement?.id;
    if (marked.length) mark(follows && (id === "text" || id === "output") ? wordAtCursor(id) : undefined);
    else if (pairedSegment) pair(passage.segments.includes(pairedSegment) ? pairedSegment : undefined); // drawn anew
  });
  for (const id of ["text", "output"]) {
    part(id).addEventListener("pointermove", (event) => {
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(() => {
        follows = false;
        const { clientX: x, clientY: y } = event;
        mark(wordAtPoint(x, y));
        if (!paired.length) pair(segmentAtPoint(x, y));
      });
    });
    part(id).addEventListener("pointerleave", () => {
      cancelAnimationFrame(frame);
      mark(undefined);
    });
    part(id).addEventListener("input", () => mark(undefined));
    part(id).addEventListener("blur", ({ relatedTarget }) => {
      if (!part("choices").contains(relatedTarget)) mark(undefined); // the word stays marked while others are listed
    });
    for (const event of ["keyup", "click"]) {
      part(id).addEventListener(event, ({ key }) => {
        if (event !== "click" && !/^(Arrow|Home|End|Page)/.test(key)) return;
        follows = true;
        mark(wordAtCursor(id));
      });
    }
  }
}

/** Returns the element of the word at the cursor of a field. */
export function wordAtCursor(id) {
  const offset = part(id).selectionStart;
  if (id === "output") {
    const place = passage.placeAt(offset);
    return place && elementAt("output", place.segment, offset - place.start);
  }
  const { head, tail } = passage.reused;
  let at = 0;
  for (const segment of passage.segments.slice(0, head)) {
    const end = at + segment.gap.length + segment.source.length;
    if (offset <= end) return elementAt("text", segment, offset - at - segment.gap.length);
    at = end;
  }
  at = passage.text.trimEnd().length;
  for (const segment of tail ? passage.segments.slice(-tail).reverse() : []) {
    const start = at - segment.source.length;
    if (offset >= start && offset <= at) return elementAt("text", segment, offset - start);
    at = start - segment.gap.length;
  }
  return undefined;
}

/** Marks a word and its counterparts, and says what is known of it. */
export function mark(element) {
  for (const each of marked) each.classList.remove("linked");
  marked = element?.isConnected ? [element] : [];
  const word = marked.length && wordOf(element);
  pair(word?.segment);
  if (!word) {
    say("");
    return;
  }
  const [own, other, side] = word.side === "text" ? ["source", "target", "output"] : ["target", "source", "text"];
  const isWritten = isPresent(word.segment); // else the links are of an older wording
  const meets = ({ [own]: [start, end] }) => start < word.end && end > word.start;
  const links = isWritten ? word.segment.links.filter(meets) : [];
  const counterparts = elementsAt(side, word.segment, links.map((link) => link[other]));
  marked.push(...counterparts);
  for (const each of marked) each.classList.add("linked");
  const arrow = word.side === "text" ? "→" : "←";
  const shown = counterparts.map((each) => each.textContent).join(" … ");
  const isLinked = isWritten && word.segment.isDetailed;
  const none = isLinked ? `${element.textContent} · no counterpart` : element.textContent;
  const linked = shown ? `${element.textContent} ${arrow} ${shown}` : none;
  const probability = word.side === "output" && isWritten && word.probability !== undefined;
  say(probability ? `${linked} · probability ${percent(word.probability)}` : linked);
}

/** Marks a sentence and its translation lightly, where there are several. */
export function pair(segment) {
  for (const each of paired) each.classList.remove("paired");
  pairedSegment = segment;
  const isOne = !segment || passage.segments.length < 2;
  paired = isOne ? [] : ["text", "output"].map((side) => elementOfSegment(side, segment)).filter(Boolean);
  for (const each of paired) each.classList.add("paired");
}

function say(message) {
  if (part("word").textContent !== message) part("word").textContent = message;
}
