// Keeps the user's work over a reload of the page: the corrections of the translation, and what they belong to.
//
// It is written after a pause, when the page is hidden and when it is left: in this tab only, until that is closed.

import { choose, chosenSource, setDetected, detectedGuess, target } from "./languages.js";
import { passage } from "./passage.js";
import { readSession, writeSession } from "./storage.js";

const PAUSE_MS = 500;

let timer = 0;

export function startKeeping() {
  passage.addEventListener("change", () => {
    clearTimeout(timer);
    timer = setTimeout(keep, PAUSE_MS);
  });
  window.addEventListener("pagehide", keep);
  document.addEventListener("visibilitychange", () => document.hidden && keep());
}

/** Writes the work; `edited` says that there were corrections where the browser has no room for them. */
function keep() {
  clearTimeout(timer);
  const { isEdited, text, segments, lostWordings } = passage;
  const work = { text, languages: [chosenSource(), target()], detected: detectedGuess(), lostWordings };
  const withoutWords = (each) => ({ ...each, translation: { ...each.translation, words: [], alignment: [] } }); // entered in it
  const isKept = writeSession("work", isEdited ? { ...work, segments: segments.map(withoutWords) } : null);
  if (!isKept) writeSession("work", null);
  writeSession("edited", isEdited && !isKept ? true : null);
}

/** Puts the work on a text back, if there is any; returns whether the translation is complete then. */
export function restoreWork(text) {
  const work = readSession("work", null);
  if (work?.text !== text) return false;
  choose(...work.languages);
  setDetected(work.detected);
  passage.segments = work.segments;
  passage.lostWordings = work.lostWordings;
  return true;
}

/** Returns whether corrections were lost, as the browser had no room for them. */
export const hasLostWork = () => readSession("edited", false);
