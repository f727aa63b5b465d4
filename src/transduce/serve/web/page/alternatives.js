// Other words at a place of the translation: a list below the word. The rest of the sentence follows the choice.

import { make, part, percent } from "./dom.js";
import { choose } from "./editing.js";
import { pivot, source, target } from "./languages.js";
import { mark, wordAtCursor } from "./links.js";
import { elementBefore, wordOf } from "./mirror.js";
import { passage } from "./passage.js";
import { ask } from "./requests.js";

const NUMBER = 6;
const LEAST = 0.01; // the probability of a word that is offered
const EDGE = 6; // pixels around the list

let running = null;

export function startAlternatives() {
  const field = part("output");
  field.addEventListener("click", () => {
    if (field.selectionStart === field.selectionEnd) open(false);
  });
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault(); // a line break needs Shift
      open(true);
    } else if (event.key === "ArrowDown" && !part("choices").hidden) {
      event.preventDefault();
      current()?.focus();
    } else if (event.key === "Escape") {
      close();
    }
  });
  field.addEventListener("input", close);
  part("choices").addEventListener("keydown", onKey);
  part("choices").addEventListener("click", (event) => event.target.closest("[role=option]")?.choose());
  document.addEventListener("pointerdown", (event) => {
    if (event.target !== field && !part("choices").contains(event.target)) close();
  });
  document.addEventListener("focusin", (event) => {
    if (event.target !== field && !part("choices").contains(event.target)) close();
  });
}

const options = () => [...part("choices").querySelectorAll("[role=option]")];
const current = () => options().find((each) => each.getAttribute("aria-selected") === "true") ?? options()[0];

function close() {
  running?.abort();
  running = null;
  part("choices").hidden = true;
}

/** Opens the list at the cursor's word; `moves` says whether the focus goes to it. */
async function open(moves) {
  close();
  const element = wordAtCursor("output") ?? (moves ? lastWord() : undefined);
  const word = element && wordOf(element);
  if (!word || !passage.isCurrent) return;
  mark(element);
  place(element);
  if (pivot()) {
    note("There are none here: two models translate one after the other.");
    return;
  }
  note("Looking for other words …");
  const prefix = word.segment.text.slice(0, word.start).replaceAll("\n", " ");
  const mine = (running = new AbortController());
  try {
    const fields = { text: word.segment.source, source: source(), target: target(), prefix, n: NUMBER };
    const { alternatives } = await ask("api/alternatives", { fields, signal: mine.signal });
    if (running !== mine) return;
    const likely = alternatives.filter((each) => each.probability >= LEAST);
    if (likely.length) fill(word, likely);
    else note("There are no other words here.");
    place(element.isConnected ? element : wordAtCursor("output"));
    if (moves) current()?.focus();
  } catch (error) {
    if (error.name !== "AbortError" && running === mine) note(error.message);
  }
}

/** Returns the last word before the cursor. */
function lastWord() {
  const { selectionStart } = part("output");
  const found = passage.placeAt(selectionStart);
  return found && elementBefore(found.segment, selectionStart - found.start);
}

function note(message) {
  part("choices").replaceChildren(make("p", { textContent: message }));
  part("choices").hidden = false;
}

/** Lists the words, with the present one, and the end of the sentence where it is likely: the likeliest first. */
function fill(word, alternatives) {
  const now = word.segment.text.slice(word.start);
  const agrees = (each) => now.startsWith(each.word) && !/^[\p{L}\p{N}]/u.test(now.slice(each.word.length));
  const found = alternatives.filter((each) => each.word && agrees(each)).sort((a, b) => b.word.length - a.word.length)[0];
  const standing = found ?? { word: now.slice(0, word.end - word.start).replace(/[^\p{L}\p{N}]+$/u, "") };
  const share = word.probability ?? standing.probability; // that which the line below says too
  const keep = option(standing.word, share, () => part("output").focus());
  keep.setAttribute("aria-selected", "true");
  const ranked = alternatives.toSorted((a, b) => b.probability - a.probability);
  const offered = ranked.filter((each) => each.word || each.text !== word.segment.text);
  part("choices").replaceChildren(
    ...(found ? [] : [keep]),
    ...offered.map((each) => {
      if (each === found) return keep;
      return each.word ? option(each.word, each.probability, () => take(word, each)) : endOption(word, each);
    }),
  );
  if (offered.every((each) => each === found)) part("choices").append(make("p", { textContent: "No other word is likely here." }));
  part("choices").hidden = false;
}

/** Returns the entry that ends the sentence before a word. */
function endOption(word, { text, probability }) {
  const entry = option("End the sentence here", probability, () => choose(word.segment, { ...word, written: null, text }));
  entry.classList.add("end");
  return entry;
}

/** Puts another word in the place of one, but for the marks after it. */
function take({ segment, start, end }, { word: written, text }) {
  const marks = /[^\p{L}\p{N}]*$/u.exec(segment.text.slice(start, end))[0];
  choose(segment, { start, end: end - marks.length, written, text });
}

/** Returns an entry of the list. */
function option(text, probability, chosen) {
  const written = make("span", { textContent: text, dir: "auto" });
  const share = make("span", { className: "share", textContent: probability === undefined ? "" : percent(probability) });
  const entry = make("div", { role: "option", tabIndex: -1 }, written, share);
  entry.setAttribute("aria-selected", "false");
  entry.choose = () => {
    close();
    chosen();
  };
  return entry;
}

/** Puts the list below a word, or above it where there is more room, wholly inside the window. */
function place(element) {
  if (!element) return;
  const list = part("choices");
  list.hidden = false;
  list.lang = target();
  list.style.maxHeight = "none";
  list.style.left = "0"; // where it can be as wide as it likes
  const frame = list.offsetParent.getBoundingClientRect();
  const [first] = element.getClientRects();
  const left = Math.min(first.left - frame.left, frame.width - list.offsetWidth - EDGE);
  list.style.insetInlineStart = "auto";
  list.style.left = `${Math.max(EDGE, left)}px`;
  const below = window.innerHeight - first.bottom - 2 * EDGE;
  const above = first.top - 2 * EDGE;
  const isAbove = list.offsetHeight > below && above > below;
  list.style.maxHeight = `${Math.max(isAbove ? above : below, 0)}px`;
  list.style.top = `${(isAbove ? first.top - list.offsetHeight - EDGE : first.bottom + EDGE) - frame.top}px`;
}

function onKey(event) {
  const all = options();
  const at = all.indexOf(document.activeElement);
  const moves = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 };
  if (event.key in moves) {
    event.preventDefault();
    if (moves[event.key] < 0) part("output").focus();
    else all[Math.min(moves[event.key], all.length - 1)]?.focus();
  } else if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    document.activeElement.choose?.();
  } else if (event.key === "Escape" || event.key === "Tab") {
    event.preventDefault();
    close();
    part("output").focus();
  }
}
