// Interactive translation: what is typed into the translation stays, and the rest of the sentence is suggested in grey.
//
// A segment's `fixed` counts the characters at its beginning that the user wrote or accepted. They become the prefix of
// the next request; what follows them is the suggestion.

import { announce, part } from "./dom.js";
import { directionOf, source, target } from "./languages.js";
import { addDetails, fix, STILL_MS } from "./live.js";
import { spansAfter, spansBefore } from "./own_spans.js";
import { passage } from "./passage.js";
import { ask, hasKey } from "./requests.js";
import { describe, ENDS } from "./segments.js";
import { failed, worked, working } from "./status.js";

const PAUSE_MS = 350; // without a key, after which details are requested, and the suggestion is read out
const MOST_UNDONE = 200;
const BURST_MS = 1500; // between key strokes that are undone together

let undone = []; // states to go back to, oldest first
let redone = [];
let burst = null; // {at, typed, time} of the last key stroke, where further ones are undone with it
let running = null; // {segment, controller} of the request for a suggestion
let pause = 0;
let insertedAt = Infinity; // where the browser is about to insert something

/** Starts to watch the field of the translation. */
export function startEditing() {
  const field = part("output");
  field.addEventListener("input", (event) => {
    if (!event.isComposing) entered();
  });
  field.addEventListener("compositionend", entered);
  field.addEventListener("keydown", onKey);
  field.addEventListener("beforeinput", (event) => {
    insertedAt = event.inputType.startsWith("insert") ? field.selectionStart : Infinity;
    if (!event.inputType.startsWith("history")) return;
    event.preventDefault();
    restore(event.inputType === "historyUndo");
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
  return [...passage.places()].find(({ segment, start }) => isSuggested(segment) && start + segment.fixed === selectionStart);
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

/** Reads what the user changed in the field. */
function entered() {
  const field = part("output");
  const before = passage.translation;
  const after = field.value;
  if (after === before) return;
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
  if (start >= end && isOverGap(start, typed)) {
    field.value = before;
    field.setSelectionRange(cursor, cursor);
    return;
  }
  const isNext = burst && (start === burst.at || (!typed && end === burst.at)) && (!typed || start >= end);
  const isOfWord = !(/\s$/.test(burst?.typed ?? "") && /^\S/.test(typed)); // undo goes by words
  const isSame = isNext && isOfWord && Boolean(typed) === Boolean(burst.typed);
  if (!isSame || Date.now() - burst.time > BURST_MS) remember(start);
  burst = { at: start + typed.length, typed, time: Date.now() };
  const segment = change(start, Math.max(start, end), typed);
  if (typed && !(before.slice(0, start) + before.slice(end)).trim()) bringBack();
  passage.changed();
  field.setSelectionRange(cursor, cursor);
  if (!segment) return;
  if (hasKey()) suggestOnceStill(segment);
  else suggest(segment);
}

/** Asks for the rest of a sentence after a pause, where characters are charged. */
function suggestOnceStill(segment) {
  running?.controller.abort();
  running = null;
  clearTimeout(pause);
  pause = setTimeout(() => suggest(segment), STILL_MS);
}

/** Returns whether a typed space is already there, after a sentence that is complete. */
function isOverGap(start, typed) {
  const places = [...passage.places()];
  const index = places.findIndex(({ segment, end }) => end === start && isWhole(segment));
  return Boolean(typed) && index >= 0 && places[index + 1]?.segment.targetGap.startsWith(typed);
}

/** Returns whether an edited sentence has its end: that which the model wrote too, or a sign where it writes no more. */
function isWhole({ isEdited, text, translation }) {
  if (!isEdited) return false;
  return text === translation.text || (ENDS.test(text) && !running);
}

/** Gives all sentences but the first their own translations again: who types over all begins with the first. */
function bringBack() {
  for (const segment of passage.segments.slice(1)) {
    const { ownGap: targetGap, translation } = segment;
    const plain = { fixed: 0, isEdited: false, isDetailed: false, ownSpans: [] };
    Object.assign(segment, { text: translation.text, targetGap, ...plain });
  }
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
  }
  return asks;
}

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
  const asks = inserted ? reachesEnd || !isOwn : at < fixed && at + removed <= fixed && !isOwn;
  segment.isDetailed = !asks; // what was only taken out stays out
  return asks;
}

/** Asks for the rest of a sentence. */
export async function suggest(segment) {
  running?.controller.abort();
  clearTimeout(pause);
  const mine = (running = { segment, controller: new AbortController() });
  const prefix = segment.text.slice(0, segment.fixed);
  const fields = {
    ...passage.requestFields(source(), target()),
    text: segment.source,
    prefix,
    confidence: hasKey(), // else a second request follows
    alignment: hasKey(),
  };
  working();
  try {
    const { translations } = await ask("api/translate", { fields, signal: mine.controller.signal });
    if (running !== mine) return;
    running = null;
    worked();
    if (!passage.segments.includes(segment) || segment.text.slice(0, segment.fixed) !== prefix) return;
    take(segment, translations[0], prefix);
    pause = setTimeout(() => {
      if (segment.fixed < segment.text.length) announce(`Suggestion: ${segment.text.slice(segment.fixed)}`);
      addDetails();
    }, PAUSE_MS);
  } catch (error) {
    if (running === mine) running = null;
    if (error.name !== "AbortError") failed(error, () => suggest(segment));
  }
}

/** Enters a suggestion. What the user wrote stays, even if the model cannot write it. */
function take(segment, translation, prefix) {
  if (translation.text.startsWith(prefix)) {
    describe(segment, translation);
    fix(segment, prefix);
  } else {
    Object.assign(segment, { text: prefix, fixed: prefix.length, isDetailed: true });
  }
  segment.isEdited = prefix !== "";
  passage.changed();
}

/** Replaces the rest of a sentence from the offset `changed` by a beginning that was chosen, and what may follow it. */
export function choose(segment, beginning, text, changed) {
  remember(passage.placeOf(segment).start + changed);
  const ownSpans = [...spansBefore(segment.ownSpans, changed), [changed, beginning.length]];
  Object.assign(segment, { text, fixed: beginning.length, isEdited: true, isDetailed: false, ownSpans });
  passage.changed();
  const place = passage.placeOf(segment);
  part("output").focus();
  part("output").setSelectionRange(place.start + beginning.length, place.start + beginning.length);
  suggest(segment);
}

/** Takes all edits back: the translation is the model's own again. */
export function discard() {
  remember(part("output").selectionStart);
  for (const segment of passage.segments) {
    if (segment.isEdited) Object.assign(segment, { fixed: 0, isEdited: false, isDetailed: false, ownSpans: [] });
  }
  passage.changed();
  addDetails();
}

/** Takes the suggestion of the cursor's sentence away, until the user edits that sentence again. */
function dismiss() {
  const { selectionStart } = part("output");
  const { segment } = placeToAccept() ?? passage.placeAt(selectionStart) ?? {};
  if (segment && running?.segment === segment) {
    running.controller.abort();
    running = null;
    worked();
  }
  if (!segment || !isSuggested(segment)) return;
  clearTimeout(pause);
  remember(selectionStart);
  Object.assign(segment, { text: segment.text.slice(0, segment.fixed), isDetailed: true }); // or it would come back
  passage.changed();
  announce("Suggestion dismissed.");
}

function onKey(event) {
  if (event.isComposing) return;
  if (event.key === "Escape" && part("choices").hidden) dismiss();
  if ((event.ctrlKey || event.metaKey) && !event.altKey && /^[zy]$/i.test(event.key)) {
    event.preventDefault();
    restore(event.key.toLowerCase() === "z" && !event.shiftKey);
    return;
  }
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
  segment.isEdited = true;
  passage.changed();
  field.setSelectionRange(place.start + place.segment.fixed, place.start + place.segment.fixed);
  clearTimeout(pause);
  pause = setTimeout(addDetails, PAUSE_MS);
}

/** Returns how much of the suggestion a key accepts: all, a word, a character, or nothing. */
function acceptedBy({ key, ctrlKey, altKey }, rest) {
  if (key === "Tab") return rest;
  if (key !== (directionOf(target()) === "rtl" ? "ArrowLeft" : "ArrowRight")) return "";
  return ctrlKey || altKey ? /^\s*\S+/.exec(rest)?.[0] ?? rest : String.fromCodePoint(rest.codePointAt(0));
}

function state(cursor) {
  const fields = ["text", "fixed", "targetGap", "isEdited", "ownSpans", "words", "links", "translation", "isDetailed"];
  const copy = (segment) => Object.fromEntries(fields.map((name) => [name, segment[name]]));
  const kept = passage.segments.map((segment) => [segment, copy(segment)]);
  return { kept, cursor };
}

function remember(cursor) {
  burst = null;
  undone = [...undone.slice(-MOST_UNDONE), state(cursor)];
  redone = [];
}

/** Goes a step back, or forward again. */
function restore(isBack) {
  burst = null;
  const [from, to] = isBack ? [undone, redone] : [redone, undone];
  const found = from.pop();
  if (!found) return;
  running?.controller.abort();
  to.push(state(part("output").selectionStart));
  for (const [segment, fields] of found.kept) Object.assign(segment, fields, { version: segment.version + 1 });
  passage.changed();
  part("output").setSelectionRange(found.cursor, found.cursor);
}
