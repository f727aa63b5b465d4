// Live translation: the translation follows the text while it is typed.
//
// Where characters are charged to a key, or the text is long, it is translated once the typing pauses. Otherwise, at once:
// one request runs at a time. While someone types it may end, and shows a translation that is a little old; the next
// one then has the newest text. As soon as the typing pauses, a request for an older text is cancelled. Only sentences that
// changed are translated again. A first, fast answer has no confidence and no links between words: these are requested
// when the typing pauses.

import { setDetected, chosenSource, isDetected, source, target, textLimit } from "./languages.js";
import { spansBefore } from "./own_spans.js";
import { passage } from "./passage.js";
import { ask, events, hasKey } from "./requests.js";
import { describe, ENDS, joint, newSegment, unitsOf } from "./segments.js";
import { failed, show, working, worked } from "./status.js";

const PAUSE_MS = 220; // since the last key stroke, after which an outdated request is cancelled, and details are requested
export const STILL_MS = 500; // since the last key stroke, after which characters are charged
const LONG_STILL_MS = 1500; // the same, where as many were charged as were typed
const LIVE_CHARACTERS = 2000; // a longer text is translated when the typing pauses: each translation is drawn
const FAST_CHARACTERS = 600; // a longer change is requested with its details at once
const LONGEST_END = 20; // characters of a full stop and the quotation marks after it
const AT_ONCE = 12; // sentences whose details are requested together

let running = null; // {controller, text}
let pause = 0;
let typed = 0; // characters that were entered
let lastLength = 0; // of the text
let charged = 0; // characters of the requests of this file that were answered
let details = null; // the controller of the request for details

/** The text has changed: to be called at each input. */
export function edited() {
  details?.abort();
  clearTimeout(pause);
  typed += Math.max(0, passage.text.length - lastLength);
  lastLength = passage.text.length;
  pause = setTimeout(paused, pauseMs());
  if (running && hasKey()) {
    abort(); // what is not answered is not charged
    worked();
  } else if (!running && isLive()) {
    next();
  }
}

const isLive = () => !hasKey() && passage.text.length <= LIVE_CHARACTERS;

/** Returns after which pause the text is translated: where characters are charged, a text of n shall cost at most 2n. */
function pauseMs() {
  if (!hasKey()) return PAUSE_MS;
  const { start, end } = planned();
  return charged + end - start <= typed ? STILL_MS : LONG_STILL_MS;
}

/** Translates everything again, but for what the user wrote if `keepsWording`: languages or glossary have changed. */
export function restart({ keepsWording = false } = {}) {
  cancel();
  for (const segment of passage.segments) {
    if (segment.isEdited && keepsWording) continue;
    passage.setAside(segment);
    segment.source = `\0${segment.source}`; // belongs to no text any more
  }
  passage.changed();
  next();
}

/** Translates now what is not translated yet. */
export function translateNow() {
  cancel();
  next();
}

function cancel() {
  clearTimeout(pause);
  pause = 0;
  details?.abort();
  abort();
}

function abort() {
  running?.controller.abort();
  running = null;
}

function paused() {
  pause = 0;
  if (running?.text === passage.text) return;
  if (running) cancel();
  if (passage.isCurrent) addDetails();
  else next();
}

/** Starts the request that the text needs now, if any. */
async function next() {
  if (!target()) return;
  if (passage.numCharacters > textLimit()) {
    worked();
    const [length, limit] = [passage.numCharacters, textLimit()].map((each) => each.toLocaleString("en"));
    show(`The text is too long: ${length} characters, and at most ${limit} are allowed. Shorten it to have it translated.`, true);
    return;
  }
  const { head, tail, start, end } = planned();
  const middle = passage.text.slice(start, end);
  const before = passage.segments.slice(0, head);
  const after = tail ? passage.segments.slice(-tail) : [];
  const old = passage.segments.slice(head, passage.segments.length - tail);
  if (!middle.trim()) {
    if (old.length) setSegments(before, [], after);
    if (!passage.text.trim()) setDetected(null);
    worked();
    addDetails();
    return;
  }
  const controller = new AbortController();
  const mine = (running = { controller, text: passage.text });
  working();
  try {
    const isPart = await translate({ middle, before, after, old, isWhole: !head && !tail }, controller.signal);
    if (running !== mine) return;
    running = null;
    worked();
    charged += middle.length;
    if (isPart || (passage.text !== mine.text && (!pause || isLive()))) next();
    else if (middle.length > FAST_CHARACTERS || !pause) addDetails();
  } catch (error) {
    if (running === mine) running = null;
    if (error.name === "AbortError") return;
    if (passage.text === mine.text) {
      clearTimeout(pause); // the same request would fail again, and end the wait for the next attempt
      pause = 0;
    }
    failed(error, translateNow);
  }
}

/** Returns what stays of the segments. Where the language is to be detected, and most of the text is new, nothing does. */
function planned() {
  const found = passage.reused;
  const changed = found.end - found.start;
  const kept = passage.text.trim().length - changed;
  const isKnown = chosenSource() !== "auto" || (source() && changed < 2 * kept + 40);
  if (isKnown || changed <= 0 || passage.segments.some((segment) => segment.isEdited)) return found;
  return { head: 0, tail: 0, start: 0, end: passage.text.trimEnd().length };
}

/** Translates a part of the text; returns whether some of it is left. */
async function translate({ middle, before, after, old, isWhole }, signal) {
  const detects = isWhole || !isDetected();
  const isFast = middle.length <= FAST_CHARACTERS && !hasKey();
  const fields = {
    ...passage.requestFields(detects ? chosenSource() : source() || "auto", target()),
    text: middle,
    confidence: !isFast,
    alignment: !isFast,
    check_source: !isFast && chosenSource() !== "auto",
  };
  const kept = keptWording(middle, old);
  if (kept) {
    const { own, sentence } = kept;
    const prefix = own.text.slice(0, own.fixed);
    const asked = { ...fields, text: sentence, prefix };
    const [found] = (await ask("api/translate", { fields: asked, signal })).translations;
    const segment = newSegment(sentence, /^\s*/.exec(middle)[0], own.targetGap + found.text, found);
    segment.ownSpans = own.ownSpans;
    fix(segment, prefix);
    setSegments(before, [segment], after);
    return sentence.length < middle.trim().length;
  }
  const found = [];
  const units = unitsOf(middle);
  let read = 0;
  for await (const [name, data] of events("api/translate", { ...fields, stream: true }, signal)) {
    if (name !== "sentence") continue;
    if (detects && !found.length && chosenSource() === "auto") setDetected(data.translation.detected);
    const [start, end] = data.span.map(units);
    const segment = newSegment(middle.slice(start, end), middle.slice(read, start), data.added, data.translation);
    if (!found.length && before.length) segment.targetGap = joint(segment.targetGap, target());
    segment.ownGap = segment.targetGap;
    if (found.length) found.at(-1).isClosed = true;
    read = end;
    found.push(takeWording(segment, old));
    setSegments(before, [...found, ...old.slice(found.length)], after);
  }
  if (after.length && found.length) found.at(-1).isClosed = true;
  if (old.length > found.length) setSegments(before, found, after);
  return false;
}

/** Returns the only old segment with its sentence in the new text, if the user worked on it and it is nearly the same. */
function keptWording(middle, old) {
  if (old.length !== 1 || !old[0].fixed) return null;
  const b = old[0].source;
  const a = firstSentence(b) === b ? firstSentence(middle.trim()) : middle.trim();
  let same = 0;
  while (same < Math.min(a.length, b.length) && a[same] === b[same]) same += 1;
  let last = 0;
  while (last < Math.min(a.length, b.length) - same && a.at(-1 - last) === b.at(-1 - last)) last += 1;
  return 2 * (same + last) >= Math.max(a.length, b.length) ? { own: old[0], sentence: a } : null;
}

/** Returns a text up to the first sign that ends a sentence. */
function firstSentence(text) {
  const found = [...text.matchAll(/\s/g)].find(({ index }) => ENDS.test(text.slice(Math.max(0, index - LONGEST_END), index)));
  return found ? text.slice(0, found.index) : text;
}

/** Returns the new segment, or the user's own translation of the same sentence. */
function takeWording(segment, old) {
  const own = old.find((each) => each.isEdited && each.source === segment.source);
  return own ? Object.assign(own, { gap: segment.gap, targetGap: segment.targetGap, ownGap: segment.ownGap }) : segment;
}

function setSegments(before, found, after) {
  const kept = new Set([...before, ...found, ...after]);
  const isCarried = found.some((each) => each.isEdited);
  for (const each of passage.segments) {
    if (!kept.has(each) && !isCarried) passage.setAside(each);
  }
  passage.segments = [...before, ...found, ...after];
  passage.changed();
}

/** Marks the beginning of a translation as the user's own, if it is what was requested. */
export function fix(segment, prefix) {
  segment.fixed = segment.text.startsWith(prefix) ? prefix.length : 0;
  segment.ownSpans = spansBefore(segment.ownSpans, segment.fixed);
  if (segment.fixed) segment.isEdited = true;
}

/** Asks for confidence and links of the sentences that have none yet. */
export async function addDetails() {
  details?.abort();
  if (running || !passage.isCurrent || !source()) return;
  const lacking = passage.segments.filter((each) => !each.isDetailed && each.source.trim()).slice(0, AT_ONCE);
  if (!lacking.length) return;
  details = new AbortController();
  const { signal } = details;
  const before = lacking.map((each) => `${each.fixed} ${each.text}`);
  const prefixes = lacking.map((each) => each.text.slice(0, each.fixed));
  const fields = {
    ...passage.requestFields(source(), target()),
    text: lacking.map((each) => each.source),
    check_source: chosenSource() !== "auto",
  };
  if (prefixes.some(Boolean)) fields.prefix = prefixes;
  try {
    const { translations } = await ask("api/translate", { fields, signal });
    charged += fields.text.join("").length;
    translations.forEach((translation, index) => {
      const segment = lacking[index];
      if (`${segment.fixed} ${segment.text}` !== before[index] || !passage.segments.includes(segment)) return;
      const isOther = !translation.text.startsWith(prefixes[index]);
      const isLonger = segment.fixed === segment.text.length && translation.text !== segment.text;
      if (prefixes[index] && (isOther || isLonger)) {
        segment.isDetailed = true; // of another wording, or with words that the user did not ask for
        return;
      }
      describe(segment, translation);
      fix(segment, prefixes[index]);
    });
    passage.changed();
    addDetails();
  } catch (error) {
    if (error.name !== "AbortError") failed(error, addDetails);
  }
}
