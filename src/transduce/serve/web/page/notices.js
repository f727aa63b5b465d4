// What happened to the text on its way: cut, guarded, split, left out, and which terms need a check. In plain words.

import { make, part } from "./dom.js";
import { outcomes } from "./glossary.js";
import { nameOf, pivot, source, target } from "./languages.js";
import { passage } from "./passage.js";
import { isPresent } from "./segments.js";

const LONGEST_QUOTE = 40; // characters
const PLAIN = [
  [/^repeats itself/, "The translation repeats itself. It was searched again, and this was the best that was found."],
  [/^copies the source/, "The translation copies the text. It was searched again, and this was the best that was found."],
  [/^has more sentences than/, "This part has more sentences than the model was trained on. What comes last may be missing."],
  [/^the markup would not survive/, "The tags would not have survived. This part was left as it was, in its own language."],
];
const OF_A_TERM = /^the required term /; // `outcomes` reports it for the present text

let shown = ""; // what is listed, a line for each notice

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
  if (!segment.text && !segment.isEdited) yield "The model left this sentence out: its translation is empty.";
  if (isPresent(segment)) yield* ownTroubles(segment.translation);
  for (const { terms, isHonoured, isForced, isAppended } of outcomes(segment)) {
    const shown = terms.map((term) => `“${term}”`).join(" or ");
    if (isAppended) yield `The term ${shown} was added after the sentence: the model saw no place for it.`;
    else if (isForced) yield `The term ${shown} was used, though the model expected another word there. Please check it.`;
    else if (!isHonoured) yield `The term ${shown} did not come out.`;
  }
}

function* ownTroubles({ finished, source_truncated: isTruncated, warnings, sentences }) {
  if (!finished) yield "The translation reached its greatest length and was cut off.";
  if (isTruncated) yield "This sentence is longer than the model can read. Only its beginning was translated.";
  if (sentences.length > 1) yield `This sentence was too long, and was translated in ${sentences.length} parts.`;
  for (const warning of warnings) if (!OF_A_TERM.test(warning)) yield plainly(warning);
}

function quoted(text) {
  return text.length <= LONGEST_QUOTE ? `“${text}”` : `“${text.slice(0, LONGEST_QUOTE).trimEnd()} …”`;
}

function show() {
  const items = [];
  const sentences = passage.segments.filter((each) => each.source.trim() && !each.source.startsWith("\0"));
  for (const segment of sentences) {
    for (const trouble of troubles(segment)) {
      items.push(make("li", { textContent: sentences.length > 1 ? `${quoted(segment.source)}: ${trouble}` : trouble }));
    }
  }
  if (passage.text.trim() && sentences.length) items.push(...facts(sentences));
  const fresh = items.map((each) => each.textContent).join("\n");
  if (fresh === shown) return;
  shown = fresh;
  part("notices").replaceChildren(...items);
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
