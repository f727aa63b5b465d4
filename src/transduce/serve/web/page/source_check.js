// A hint where the text does not look like the language that was chosen for it.

import { part } from "./dom.js";
import { chooseDetection, chosenSource, nameOf } from "./languages.js";
import { passage } from "./passage.js";

const LEAST_LETTERS = 16; // of a sentence: fewer may look like anything
const LEAST_CONFIDENCE = 95; // percent

export function startSourceCheck() {
  passage.addEventListener("change", show);
  part("detect-instead").addEventListener("click", () => {
    chooseDetection();
    part("text").focus();
  });
}

function show() {
  const other = otherLanguage();
  part("looks-like").hidden = other === null;
  part("detect-instead").hidden = !other;
  const not = nameOf(chosenSource());
  const message = other === null ? "" : other ? `This looks like ${nameOf(other)}, not ${not}.` : `This does not look like ${not}.`;
  if (part("looks-like-text").textContent !== message) part("looks-like-text").textContent = message;
}

/** Returns the language that most of the text is in, "" where none is recognised, or null where it is the chosen one. */
function otherLanguage() {
  if (chosenSource() === "auto") return null;
  const letters = new Map(); // of each language
  let all = 0;
  for (const { source, translation } of passage.segments) {
    const number = source.match(/\p{L}/gu)?.length ?? 0;
    all += number;
    if (!translation.detected || number < LEAST_LETTERS) continue;
    const { language, confidence } = translation.detected;
    if (confidence && (confidence < LEAST_CONFIDENCE || isSame(language, chosenSource()))) continue;
    const found = confidence ? language : "";
    letters.set(found, (letters.get(found) ?? 0) + number);
  }
  return [...letters.keys()].find((each) => 2 * letters.get(each) > all) ?? null;
}

const isSame = (code, other) => code.split("-")[0] === other.split("-")[0];
