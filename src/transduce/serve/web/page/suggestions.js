// The rest of a sentence that the user began: it is requested, and shown in grey.

import { announce } from "./dom.js";
import { source, target } from "./languages.js";
import { addDetails, fix, STILL_MS } from "./live.js";
import { passage } from "./passage.js";
import { ask, hasKey } from "./requests.js";
import { describe } from "./segments.js";
import { failed, worked, working } from "./status.js";

const PAUSE_MS = 350; // without a key, after which details are requested, and the suggestion is read out

let running = null; // {segment, controller} of the request for a suggestion
let pause = 0;

export const isSuggesting = () => running !== null;

/** Cancels the request for a suggestion. */
export function stopSuggesting() {
  clearTimeout(pause);
  if (!running) return;
  running.controller.abort();
  running = null;
  worked();
}

/** Calls for the details of what was accepted, once the keys pause. */
export function addDetailsSoon() {
  clearTimeout(pause);
  pause = setTimeout(addDetails, PAUSE_MS);
}

/** Asks for the rest of a sentence: at once, or after a pause where characters are charged. */
export function suggestSoon(segment, options) {
  if (!hasKey()) {
    suggest(segment, options);
    return;
  }
  stopSuggesting();
  pause = setTimeout(() => suggest(segment, options), STILL_MS);
}

/** Asks for the rest of a sentence, unless the next one follows without a space. `isNew`: all of it is a suggestion. */
export async function suggest(segment, { isNew = false } = {}) {
  stopSuggesting();
  if (passage.isJoined(segment)) {
    segment.isDetailed = true; // or the rest would come with the details
    return;
  }
  const mine = (running = { segment, controller: new AbortController() });
  const prefix = segment.text.slice(0, segment.fixed);
  const fields = {
    ...passage.requestFields(source(), target()),
    text: segment.source,
    prefix: inOneLine(prefix),
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
    take(segment, translations[0], prefix, isNew);
    pause = setTimeout(() => {
      if (segment.fixed < segment.text.length) announce(`Suggestion: ${segment.text.slice(segment.fixed)}`);
      addDetails();
    }, PAUSE_MS);
  } catch (error) {
    if (running === mine) running = null;
    if (error.name !== "AbortError") failed(error, () => suggest(segment, { isNew }));
  }
}

/** Returns a beginning as the model may have it: line breaks are the user's. */
const inOneLine = (text) => text.replaceAll("\n", " ");

/** Enters a suggestion. What the user wrote stays, even if the model cannot write it. */
function take(segment, translation, prefix, isNew) {
  if (prefix.includes("\n")) Object.assign(segment, { text: prefix + restAfter(translation, prefix), isDetailed: true });
  else if (translation.text.startsWith(prefix)) {
    describe(segment, translation);
    fix(segment, prefix);
  } else {
    Object.assign(segment, { text: prefix, fixed: prefix.length, isDetailed: true });
  }
  Object.assign(segment, { isEdited: prefix !== "" || isNew, isNew });
  passage.changed();
}

const restAfter = ({ text }, prefix) => (text.startsWith(inOneLine(prefix)) ? text.slice(prefix.length) : "");
