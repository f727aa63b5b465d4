// Interactive translation: what is typed into the translation stays, and the rest of the sentence is suggested in grey.
//
// A segment's `fixed` counts the characters at its beginning that the user wrote or accepted. They become the prefix of
// the next request; what follows them is the suggestion.

import { announce, part } from "./dom.js";
import { directionOf, target } from "./languages.js";
import { addDetails } from "./live.js";
import { spansAfter, spansBefore } from "./own_spans.js";
import { passage } from "./passage.js";
import { ENDS, sentencesOf } from "./segments.js";
import { addDetailsSoon, isSuggesting, suggest, suggestSoon } from "./suggestions.js";
import { lastStep, remember } from "./undo.js";

const BURST_MS = 1500; // between key strokes that are undone together

let burst = null; // {at, typed, time, step} of the last key stroke, where further ones are undone with it
let insertedAt = Infinity; // where the browser is about to insert something
let released = null; // the segment whose suggestion Tab does not accept, as Esc was pressed

/** Starts to watch the field of the translation. */
export function startEditing() {
  const field = part("output");
  field.addEventListener("input", (event) => {
    if (!event.isComposing) entered(/^insertFrom/.test(event.inputType));
  });
  field.addEventListener("compositionend", () => entered());
  field.addEventListener("keydown", onKey);
  field.addEventListener("beforeinput", (event) => {
    insertedAt = event.inputType.startsWith("insert") ? field.selectionStart : Infinity;
  });
  part("accept").addEventListener("click", () => {
    const place = suggestedPlace();
    field.focus();
    if (place) accept(place, place.segment.text.slice(place.segment.fixed));
  });
  passage.addEventListener("change", () => {
    show();
    part("accept").hidden = !suggestedPlace();
    showHint();
  });
  for (const name of ["selectionchange", "focusin", "focusout"]) document.addEventListener(name, showHint);
}

/** Shows which key accepts the suggestion, where it does. */
function showHint() {
  part("accept-hint").hidden = document.activeElement !== part("output") || !placeToAccept();
}

/** Returns the first place that has a suggestion. */
const suggestedPlace = () => [...passage.places()].find(({ segment }) => isSuggested(segment));
const isSuggested = ({ isEdited, fixed, text }) => isEdited && fixed < text.length;

/** Returns the place whose suggestion begins at the cursor, where keys accept it. */
function placeToAccept() {
  const { selectionStart, selectionEnd } = part("output");
  if (selectionStart !== selectionEnd) return undefined;
  return [...passage.places()].find(({ segment, start }) => isSuggested(segment) && segment !== released && start + segment.fixed === selectionStart);
}

/** Writes the translation into its field, and leaves the cursor where it was. */
function show() {
  const field = part("output");
  const { translation } = passage;
  if (field.value === translation) return;
  const cursor = cursorIn(field);
  field.value = translation;
  if (cursor) field.setSelectionRange(...cursor());
}

/** Returns a function that finds the cursor's place again in its segment, once the text is another. */
function cursorIn(field) {
  if (document.activeElement !== field) return null;
  const { selectionStart, selectionEnd } = field;
  const holds = ({ start, end }) => start <= selectionStart && selectionStart <= end;
  const place = shownPlaces.find(holds) ?? shownPlaces.findLast(({ start }) => start <= selectionStart);
  if (!place || !passage.segments.includes(place.segment)) return () => [selectionStart, selectionEnd];
  return () => {
    const moved = passage.placeOf(place.segment).start - place.start;
    return [selectionStart + moved, selectionEnd + moved];
  };
}

let shownPlaces = []; // those of the text in the field

/** Remembers where the segments are in the field; to be called when it was drawn. */
export function rememberPlaces() {
  shownPlaces = [...passage.places()];
}

/** Reads what the user changed in the field; `isPasted`: it was not typed. */
function entered(isPasted = false) {
  const field = part("output");
  const before = passage.translation;
  const after = field.value;
  if (after === before) return;
  released = null;
  const replacedFrom = insertedAt;
  insertedAt = Infinity;
  if (!passage.segments.length) {
    field.value = ""; // nothing to translate yet
    return;
  }
  const cursor = before.endsWith(after.slice(field.selectionEnd)) ? field.selectionEnd : after.length;
  const end = before.length - (after.length - cursor);
  let start = 0;
  const most = Math.min(cursor, end, replacedFrom);
  while (start < most && before[start] === after[start]) start += 1;
  const typed = after.slice(start, cursor);
  const next = start >= end ? sentenceAfterGap(start, typed) : undefined;
  if (next?.text) {
    field.value = before;
    field.setSelectionRange(cursor, cursor);
    return;
  }
  const isNext = burst && (start === burst.at || (!typed && end === burst.at)) && (!typed || start >= end);
  const isOfWord = !(/\s$/.test(burst?.typed ?? "") && /^\S/.test(typed)); // undo goes by words
  const isSame = isNext && burst.step === lastStep() && isOfWord && Boolean(typed) === Boolean(burst.typed);
  if (!isSame || Date.now() - burst.time > BURST_MS) remember(start);
  burst = { at: start + typed.length, typed, time: Date.now(), step: lastStep() };
  if (next) {
    next.targetGap = typed;
    passage.changed();
    field.setSelectionRange(cursor, cursor);
    suggestSoon(next, { isNew: true });
    return;
  }
  if (start >= end && breakLine(start, typed)) return;
  const segment = change(start, Math.max(start, end), typed);
  const isWhole = !(before.slice(0, start) + before.slice(end)).trim() && (isPasted || /\S\s+\S/.test(typed));
  if (isWhole) spread(typed);
  passage.changed();
  field.setSelectionRange(cursor, cursor);
  if (segment && !isWhole) suggestSoon(segment);
}

/**
 * Returns the sentence that begins after typed white space, if it does: the one before is complete. The white space is
 * there already, unless that sentence is empty, because the user wrote over it.
 */
function sentenceAfterGap(start, typed) {
  if (!typed || typed.trim()) return undefined;
  const places = [...passage.places()];
  const index = places.findIndex(({ segment, end }) => end === start && segment.text && segment.isEdited);
  const { segment: next } = places[index + 1] ?? {};
  if (index < 0 || !next) return undefined;
  const { text, translation } = places[index].segment;
  if (isRemoved(next)) return ENDS.test(text) ? next : undefined;
  const isWhole = text === translation.text || (ENDS.test(text) && !isSuggesting());
  return isWhole && next.targetGap.startsWith(typed) ? next : undefined;
}

const isRemoved = ({ isEdited, text, targetGap }) => isEdited && !text && !targetGap;

/** Shares out what was written over the whole translation, if it has as many sentences as the text. */
function spread(written) {
  const own = sentencesOf(written);
  if (own.length !== passage.segments.length) return;
  passage.segments.forEach((segment, index) => {
    const { gap: targetGap, text } = own[index];
    const plain = { isEdited: true, isDetailed: true, fixed: text.length, ownSpans: [[0, text.length]] };
    Object.assign(segment, { text, targetGap, ...plain });
  });
}

/** Enters an edit into the segments; returns the one whose rest is to be searched again, if any. */
function change(start, end, inserted) {
  const places = [...passage.places()];
  const home = passage.placeAt(start);
  let asks = null;
  for (const place of places) {
    const { segment, at } = place;
    const isHome = segment === home.segment;
    if (end > at && start < place.start) segment.targetGap = cut(segment.targetGap, start - at, end - at);
    const from = Math.max(start, place.start) - place.start;
    const to = Math.min(end, place.end) - place.start;
    const removed = Math.max(0, to - from);
    if (isHome) {
      if (edit(segment, Math.min(from, segment.text.length), removed, inserted)) asks = segment;
    } else if (removed && place.end > start) {
      edit(segment, from, removed, "");
    }
    if (segment.isNew && !segment.targetGap) {
      Object.assign(segment, { text: "", isDetailed: true }); // it was suggested after the space that is gone
    }
  }
  if (!asks || end <= home.end) return asks;
  asks.isDetailed = true; // what was written reaches into the next sentence: nothing is to come between
  return null;
}

/** Enters a line break between two sentences, in place of the space there; returns whether it was one. */
function breakLine(start, typed) {
  const isThere = ({ segment, at, start: begins }) => at && segment.text && at <= start && start <= begins;
  const { segment, at } = (isBreak(typed) && [...passage.places()].find(isThere)) || {};
  if (!segment) return false;
  const gap = segment.targetGap.slice(0, start - at) + typed + segment.targetGap.slice(start - at);
  segment.targetGap = gap.replace(/[^\S\n]*\n[^\S\n]*/g, "\n");
  passage.changed();
  const { start: begins } = passage.placeOf(segment);
  part("output").setSelectionRange(begins, begins);
  return true;
}

const isBreak = (typed) => typed.includes("\n") && !typed.trim();
const cut = (text, from, to) => text.slice(0, Math.max(0, from)) + text.slice(Math.max(0, to));

/** Changes the text of a segment; returns whether what follows the fixed part is to be searched again. */
function edit(segment, at, removed, inserted) {
  const { text, fixed } = segment;
  const isOwn = segment.isEdited && fixed === text.length; // nothing of it is a suggestion
  const reachesEnd = at + removed >= fixed;
  let rest = text.slice(at + removed);
  if (inserted && reachesEnd && !removed && !isOwn) {
    if (rest.startsWith(inserted)) rest = rest.slice(inserted.length); // what was suggested is typed over
    else if (/\S$/.test(inserted)) rest = rest.replace(/^\S+/, "");
  }
  segment.text = text.slice(0, at) + inserted + rest;
  segment.fixed = reachesEnd ? at + inserted.length : fixed - removed + inserted.length;
  segment.ownSpans = spansBefore(spansAfter(segment.ownSpans, at, removed, inserted.length), segment.fixed);
  segment.isEdited = true;
  segment.isNew = false;
  if (isBreak(inserted)) {
    segment.isDetailed = true;
    return false; // what follows it stays
  }
  const asks = inserted ? reachesEnd || !isOwn : at < fixed && at + removed <= fixed && !isOwn;
  segment.isDetailed = !asks; // what was only taken out stays out
  return asks;
}

/**
 * Writes another word over the characters from `start` to `end` of a sentence. What the user wrote after it stays;
 * otherwise, `text` is the sentence with another rest.
 */
export function choose(segment, { start, end, written, text }) {
  const place = passage.placeOf(segment).start;
  remember(place + start);
  const follows = segment.text.slice(end);
  const isKept = passage.isJoined(segment) || segment.ownSpans.some(([, to]) => to > end);
  if (isKept && written !== null) {
    edit(segment, start, end - start, written);
    segment.isDetailed = !segment.text.slice(segment.fixed);
  } else {
    const beginning = written === null ? text : segment.text.slice(0, start) + written;
    const ownSpans = [...spansBefore(segment.ownSpans, start), [start, beginning.length]];
    const plain = { fixed: beginning.length, isEdited: true, isDetailed: false, ownSpans };
    Object.assign(segment, { text: text.startsWith(beginning) ? text : beginning, ...plain });
  }
  passage.changed();
  const cursor = isKept && written !== null ? place + segment.text.length - follows.length : place + segment.fixed;
  part("output").focus();
  part("output").setSelectionRange(cursor, cursor);
  if (segment.fixed < segment.text.length || !isKept) suggest(segment);
}

/** Takes all edits back: the translation is the model's own again. */
export function discard() {
  remember(part("output").selectionStart);
  for (const segment of passage.segments) {
    segment.targetGap = segment.ownGap;
    if (segment.isEdited) Object.assign(segment, { fixed: 0, isEdited: false, isDetailed: false, ownSpans: [] });
  }
  passage.changed();
  addDetails();
}

/** Lets Tab leave the field until the next edit: it does not accept the suggestion at the cursor, which stays. */
function release() {
  const { segment } = placeToAccept() ?? passage.placeAt(part("output").selectionStart) ?? {};
  if (!segment || released === segment || !(isSuggesting() || isSuggested(segment))) return;
  released = segment;
  showHint();
  announce("Tab leaves the field.");
}

function onKey(event) {
  if (event.isComposing) return;
  if (event.key === "Escape" && part("choices").hidden) release();
  const place = event.shiftKey ? undefined : placeToAccept();
  if (!place) return;
  const rest = place.segment.text.slice(place.segment.fixed);
  const accepted = acceptedBy(event, rest);
  if (!accepted) return;
  event.preventDefault();
  accept(place, accepted);
}

/** Makes a part of the suggestion at a place the user's own. */
function accept(place, accepted) {
  const field = part("output");
  remember(field.selectionStart);
  const { segment } = place;
  segment.ownSpans = [...segment.ownSpans, [segment.fixed, segment.fixed + accepted.length]];
  segment.fixed += accepted.length;
  Object.assign(segment, { isEdited: true, isNew: false });
  passage.changed();
  field.setSelectionRange(place.start + place.segment.fixed, place.start + place.segment.fixed);
  addDetailsSoon();
}

/** Returns how much of the suggestion a key accepts: all, a word, a character, or nothing. */
function acceptedBy({ key, ctrlKey, altKey }, rest) {
  if (key === "Tab") return rest;
  if (key !== (directionOf(target()) === "rtl" ? "ArrowLeft" : "ArrowRight")) return "";
  return ctrlKey || altKey ? /^\s*\S+/.exec(rest)?.[0] ?? rest : String.fromCodePoint(rest.codePointAt(0));
}
