// Undo and redo: of edits of the translation, and of what replaces the whole text, such as a link or other languages.

import { part } from "./dom.js";
import { choose, chosenSource, detectedGuess, setDetected, target } from "./languages.js";
import { translateNow } from "./live.js";
import { passage } from "./passage.js";
import { dropLink } from "./sharing.js";
import { writeSession } from "./storage.js";
import { stopSuggesting } from "./suggestions.js";

const MOST_UNDONE = 200;

let undone = []; // states to go back to, oldest first
let redone = [];

/** Starts the buttons, and the keys in both fields. */
export function startUndo() {
  part("undo").addEventListener("click", () => restore(true));
  part("redo").addEventListener("click", () => restore(false));
  part("output").addEventListener("beforeinput", (event) => {
    if (!event.inputType.startsWith("history")) return;
    event.preventDefault();
    restore(event.inputType === "historyUndo");
  });
  part("output").addEventListener("keydown", onKey);
  part("text").addEventListener("keydown", (event) => {
    if (isReplaced((isBack(event) ? undone : redone).at(-1))) onKey(event); // what was typed, the browser undoes
  });
  passage.addEventListener("change", show);
}

/** Returns whether the text is still the one that a step put in place of another. */
const isReplaced = (step) => step?.isWhole === true && step.next === passage.text && step.text !== passage.text;
const isBack = ({ key, shiftKey }) => key.toLowerCase() === "z" && !shiftKey;

function show() {
  part("undo").disabled = !undone.length;
  part("redo").disabled = !redone.length;
}

function onKey(event) {
  if (event.isComposing || !(event.ctrlKey || event.metaKey) || event.altKey || !/^[zy]$/i.test(event.key)) return;
  event.preventDefault();
  restore(isBack(event));
}

/** Returns all that an undo brings back. */
function state(cursor, isWhole) {
  return {
    cursor,
    isWhole,
    text: passage.text,
    languages: [chosenSource(), target()],
    detected: detectedGuess(),
    lostWordings: passage.lostWordings,
    kept: passage.segments.map((segment) => [segment, { ...segment }]),
  };
}

/** Keeps what is there, as a step to go back to; `languages` are those of the segments, if others are chosen already. */
export function remember(cursor, { isWhole = false, next = "", languages = [chosenSource(), target()] } = {}) {
  undone = [...undone.slice(1 - MOST_UNDONE), { ...state(cursor, isWhole), next, languages }];
  redone = [];
}

/** Returns the step that would be undone next: other edits have come between where it is another one. */
export const lastStep = () => undone.at(-1);

export const canUndo = () => undone.length + redone.length > 0;

/** Goes a step back, or forward again. */
function restore(goesBack) {
  const [from, to] = goesBack ? [undone, redone] : [redone, undone];
  const found = from.pop();
  if (!found) return;
  stopSuggesting();
  const isWhole = found.isWhole || found.text === passage.text;
  to.push({ ...state(part("output").selectionStart, found.isWhole), next: found.text });
  const present = new Set(passage.segments);
  const isOfTarget = found.languages[1] === target();
  for (const [segment, fields] of found.kept) {
    if (!isWhole && !(isOfTarget && present.has(segment))) continue;
    Object.assign(segment, fields, { version: segment.version + 1 });
  }
  if (isWhole) {
    Object.assign(passage, { text: found.text, lostWordings: found.lostWordings });
    passage.segments = found.kept.map(([segment]) => segment);
    if (part("text").value !== found.text) part("text").value = found.text;
    choose(...found.languages);
    setDetected(found.detected);
    writeSession("text", found.text || null);
    dropLink();
  }
  passage.changed();
  part("output").setSelectionRange(found.cursor, found.cursor);
  if (isWhole) translateNow();
}
