// What happened to the text on its way: cut, guarded, split, left out, forced. In plain words.

import { make, part } from "./dom.js";
import { nameOf, pivot, source, target } from "./languages.js";
import { passage } from "./passage.js";

const LONGEST_QUOTE = 40; // characters
const PLAIN = [
  [/^repeats itself/, "The translation repeats itself. It was searched again, and this was the best that was found."],
  [/^copies the source/, "The translation copies the text. It was searched again, and this was the best that was found."],
  [/^has more sentences than/, "This part has more sentences than the model was trained on. What comes last may be missing."],
  [/^the markup would not survive/, "The tags would not have survived. This part was left as it was, in its own language."],
  [/^the required term (.+) was forced/, (term) => `The term ${term} was forced: the model saw no place for it.`],
  [/^the required term (.+) did not come out/, (term) => `The term ${term} did not come out.`],
];

export function startNotices() {
  passage.addEventListener("change", show);
}

/** Returns a warning of the service in plain words; an unknown one as it is. */
export function plainly(warning) {
  for (const [pattern, words] of PLAIN) {
    const found = pattern.exec(warning);
    if (found) return typeof words === "string" ? words : words(found[1]);
  }
  return warning[0].toUpperCase() + warning.slice(1);
}

function* troubles({ finished, source_truncated: isTruncated, warnings, sentences }, isEmpty) {
  if (!finished) yield "The translation reached its greatest length and was cut off.";
  if (isTruncated) yield "This sentence is longer than the model can read. Only its beginning was translated.";
  if (isEmpty) yield "The model left this sentence out: its translation is empty.";
  if (sentences.length > 1) yield `This sentence was too long, and was translated in ${sentences.length} parts.`;
  for (const warning of warnings) yield plainly(warning);
}

function quoted(text) {
  return text.length <= LONGEST_QUOTE ? `“${text}”` : `“${text.slice(0, LONGEST_QUOTE).trimEnd()} …”`;
}

function show() {
  const items = [];
  const sentences = passage.segments.filter((each) => each.source.trim() && !each.source.startsWith("\0"));
  for (const segment of sentences) {
    const isEmpty = !segment.text && !segment.isEdited;
    for (const trouble of troubles(segment.translation, isEmpty)) {
      items.push(make("li", { textContent: sentences.length > 1 ? `${quoted(segment.source)}: ${trouble}` : trouble }));
    }
  }
  if (passage.text.trim() && sentences.length) items.push(...facts(sentences));
  const fresh = items.map((each) => each.textContent).join("\n");
  if (part("notices").innerText !== fresh) part("notices").replaceChildren(...items);
}

/** Yields what is no trouble, but good to know. */
function* facts(sentences) {
  const fact = (textContent) => make("li", { className: "plainly", textContent });
  if (source() && source() === target()) yield fact(`The text is in ${nameOf(target())} already, and was left as it is.`);
  else if (sentences.length > 1) yield fact(`Translated as ${sentences.length} sentences, each on its own.`);
  if (pivot()) yield fact(`Translated over ${nameOf(pivot())}, by two models.`);
  for (const wording of passage.lostWordings) {
    const copy = make("button", { type: "button", className: "plain", textContent: "Copy it" });
    copy.addEventListener("click", () => navigator.clipboard.writeText(wording));
    yield make("li", { className: "plainly" }, `The sentence that you had translated as ${quoted(wording)} changed. `, copy);
  }
}
