// What happened to the text on its way: cut, guarded, split, left out, and which terms need a check. In plain words.

import { make, part } from "./dom.js";
import { outcomes } from "./glossary.js";
import { nameOf, pivot, source, target } from "./languages.js";
import { pair } from "./links.js";
import { elementOfSegment } from "./mirror.js";
import { passage } from "./passage.js";
import { isPresent } from "./segments.js";

const LONGEST_QUOTE = 40; // characters
const PLAIN = [
  [/^repeats itself/, "The translation repeats itself. It was searched again, and this was the best that was found."],
  [/^copies the source/, "The translation copies the text. It was searched again, and this was the best that was found."],
  [/^has more sentences than/, "More sentences in one part than the model was trained on. What comes last may be missing."],
  [/^the markup would not survive/, "The tags would not have survived. Left as it was, in its own language."],
];
const OF_A_TERM = /^the required term /; // `outcomes` reports it for the present text

let shown = ""; // what is listed, a line for each notice
let found = new Map(); // trouble → the sentences that have it
let last = null; // the sentence that was gone to

export function startNotices() {
  passage.addEventListener("change", show);
}

/** Returns a warning of the service in plain words; an unknown one as it is. */
export function plainly(warning) {
  const known = PLAIN.find(([pattern]) => pattern.test(warning));
  return known ? known[1] : warning[0].toUpperCase() + warning.slice(1);
}

/** Yields what the user should know of the present text. */
function* troubles(segment) {
  if (!segment.text && !segment.isEdited) yield "The model left it out: the translation is empty.";
  if (isPresent(segment)) yield* ownTroubles(segment.translation);
  for (const { terms, isHonoured, isForced, isAppended } of outcomes(segment)) {
    const shown = terms.map((term) => `“${term}”`).join(" or ");
    if (isAppended) yield `The term ${shown} was added after the sentence: the model saw no place for it.`;
    else if (isForced) yield `The term ${shown} was used, though the model expected another word there. Please check it.`;
    else if (!isHonoured) yield `The term ${shown} was not used${segment.isEdited ? ": you edited the sentence" : ""}.`;
  }
}

function* ownTroubles({ finished, source_truncated: isTruncated, warnings, sentences }) {
  if (!finished) yield "The translation reached its greatest length and was cut off.";
  if (isTruncated) yield "Longer than the model can read. Only the beginning was translated.";
  if (sentences.length > 1) yield "Too long for the model, and translated in parts.";
  for (const warning of warnings) if (!OF_A_TERM.test(warning)) yield plainly(warning);
}

function quoted(text) {
  return text.length <= LONGEST_QUOTE ? `“${text}”` : `“${text.slice(0, LONGEST_QUOTE).trimEnd()} …”`;
}

function show() {
  const items = [];
  const sentences = passage.segments.filter((each) => each.source.trim() && !each.source.startsWith("\0"));
  found = new Map();
  for (const segment of sentences) {
    for (const trouble of troubles(segment)) found.set(trouble, [...(found.get(trouble) ?? []), segment]);
  }
  for (const [trouble, affected] of found) items.push(item(trouble, affected, sentences.length));
  if (passage.text.trim() && sentences.length) items.push(...facts(sentences));
  const fresh = items.map((each) => each.textContent).join("\n");
  if (fresh === shown) return;
  shown = fresh;
  part("notices").replaceChildren(...items);
}

/** Returns an item of the list: a trouble once, with a button that goes to the sentences that have it, one after another. */
function item(trouble, affected, numSentences) {
  if (numSentences === 1) return make("li", { textContent: trouble });
  const textContent = affected.length === 1 ? quoted(affected[0].source) : `${affected.length} sentences`;
  const button = make("button", { type: "button", className: "plain", textContent, title: "Go to it" });
  button.addEventListener("click", () => {
    const segments = found.get(trouble) ?? [];
    if (segments.length) goTo(segments[(segments.indexOf(last) + 1) % segments.length]);
  });
  return make("li", {}, button, `: ${trouble}`);
}

/** Puts the cursor at the translation of a sentence, and shows it. */
function goTo(segment) {
  last = segment;
  const { start } = passage.placeOf(segment);
  part("output").focus();
  part("output").setSelectionRange(start, start);
  elementOfSegment("output", segment)?.scrollIntoView({ block: "center" });
  pair(segment);
}

/** Yields what is no trouble, but good to know. */
function* facts(sentences) {
  const fact = (textContent) => make("li", { className: "plainly", textContent });
  if (source() && source() === target()) yield fact(`The text is in ${nameOf(target())} already, and was left as it is.`);
  else if (sentences.length > 1) yield fact("Each sentence is translated on its own: the model does not see those around it.");
  if (pivot()) yield fact(`Translated over ${nameOf(pivot())}, by two models.`);
  for (const wording of passage.lostWordings) {
    const copy = make("button", { type: "button", className: "plain", textContent: "Copy it" });
    copy.addEventListener("click", () => navigator.clipboard.writeText(wording));
    yield make("li", { className: "plainly" }, `The sentence that you had translated as ${quoted(wording)} changed. `, copy);
  }
}
