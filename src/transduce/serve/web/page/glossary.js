// The glossary: terms with their translations, and which of them came out.

import { announce, disclosure, make, part } from "./dom.js";
import { source, target } from "./languages.js";
import { restart } from "./live.js";
import { isOwn } from "./own_spans.js";
import { passage } from "./passage.js";
import { ask } from "./requests.js";
import { ENDS, isPresent } from "./segments.js";
import { failed } from "./status.js";
import { readLasting, writeLasting } from "./storage.js";

let open; // opens and closes the panel
let offered = []; // terms of a link

export function startGlossary() {
  const terms = readLasting("glossary", []);
  passage.glossary = new Map(terms);
  open = disclosure(part("glossary-toggle"), part("glossary"), () => part("term-source").focus());
  part("term-form").addEventListener("submit", (event) => {
    event.preventDefault();
    add(part("term-source").value.trim(), part("term-target").value);
  });
  part("offer-add").addEventListener("click", () => {
    take(offered);
    offerTerms([]);
    changed();
  });
  part("offer-leave").addEventListener("click", () => offerTerms([]));
  passage.addEventListener("change", show);
  show();
}

/** Takes over the terms of a link; where the user has terms already, asks first. */
export function offerTerms(terms) {
  const isNew = ([term, choices]) => JSON.stringify(passage.glossary.get(term)) !== JSON.stringify(choices);
  offered = passage.glossary.size ? terms.filter(isNew) : [];
  if (!passage.glossary.size && terms.length) {
    take(terms);
    open(true);
    announce("The link has terms. They are in your glossary.");
  }
  const hadFocus = part("offer").contains(document.activeElement);
  part("offer").hidden = !offered.length;
  if (!offered.length) {
    if (hadFocus) part("term-source").focus();
    return;
  }
  const shown = offered.map(([term, choices]) => `${term} = ${choices.join(" | ")}`).join(", ");
  const isOwn = offered.some(([term]) => passage.glossary.has(term));
  part("offer-text").textContent = `The link has terms: ${shown}.${isOwn ? " Some replace terms of yours." : ""}`;
  open(true);
  announce("The link has terms for your glossary. Add them, or leave them out.");
}

function take(terms) {
  for (const [term, choices] of terms) passage.glossary.set(term, choices);
}

function add(term, written) {
  const choices = written.split("|").map((each) => each.trim()).filter(Boolean);
  if (!term || !choices.length) {
    part(term ? "term-target" : "term-source").focus();
    return;
  }
  const before = passage.glossary.get(term);
  const isReplaced = before && !isSame(before, choices);
  part("term-said").textContent = isReplaced ? `“${term}” was ${before.join(" | ")} before.` : "";
  passage.glossary.set(term, choices);
  part("term-form").reset();
  part("term-source").focus();
  changed();
}

function changed() {
  writeLasting("glossary", passage.glossary.size ? [...passage.glossary] : null);
  show();
  restart({ keepsWording: true });
  recheck();
}

let checking = null; // the controller of the request that asks for terms
let unchecked = new Set(); // the sentences that it asks for

/** Asks which terms occur in the sentences that the user worked on: these are not translated again. */
async function recheck() {
  checking?.abort();
  unchecked = new Set(passage.segments.filter((each) => each.isEdited));
  if (!unchecked.size || !source()) return;
  passage.changed();
  checking = new AbortController();
  const { signal } = checking;
  const edited = [...unchecked];
  const text = edited.map((each) => each.source);
  const fields = { ...passage.requestFields(source(), target()), text, confidence: false, alignment: false };
  try {
    const { translations } = await ask("api/translate", { fields, signal });
    edited.forEach((segment, index) => {
      const before = segment.translation.required;
      const wasForced = ({ terms }) => before.some((each) => each.forced && isSame(each.terms, terms));
      const required = translations[index].required.map((each) => ({ ...each, forced: wasForced(each) })); // as it is now
      segment.translation = { ...segment.translation, required };
    });
    unchecked = new Set();
    passage.changed();
  } catch (error) {
    if (error.name !== "AbortError") failed(error, recheck);
  }
}

const isSame = (terms, others) => JSON.stringify(terms) === JSON.stringify(others);

/** Returns whether it is known which terms are in a sentence. */
const isChecked = (segment) => !segment.source.startsWith("\0") && !unchecked.has(segment);

/**
 * Returns what became of each term of the glossary that a sentence requires: {terms, isHonoured, isForced, isAppended,
 * isEditedOut}.
 *
 * A forced term is one that the model did not expect where it is; it may still be in its place. An appended one stands
 * alone after the end of the sentence.
 */
export function outcomes(segment) {
  if (!isChecked(segment)) return [];
  const inGlossary = ({ terms }) => [...passage.glossary.values()].some((choices) => isSame(terms, choices));
  return segment.translation.required.filter(inGlossary).map(({ terms, found, forced }) => {
    const written = terms.flatMap((term) => {
      const start = segment.text.toLowerCase().indexOf(term.toLowerCase());
      return start < 0 ? [] : [{ start, end: start + term.length }];
    });
    const isHonoured = isPresent(segment) && !segment.isEdited ? found : written.length > 0;
    const isUsers = written.some((span) => isOwn(segment, span));
    const isForced = isHonoured && isPresent(segment) && forced && !isUsers;
    const isAppended = isForced && written.length > 0 && written.every((span) => isAfterEnd(segment.text, span));
    const isEditedOut = !isHonoured && segment.isEdited;
    return { terms, isHonoured, isForced, isAppended, isEditedOut };
  });
}

/** Returns whether a span of a text is alone after the end of the sentence, as in "A man sleeps. Cat". */
function isAfterEnd(text, { start, end }) {
  return ENDS.test(text.slice(0, start).trimEnd()) && !/[\p{L}\p{N}]/u.test(text.slice(end));
}

function show() {
  const { size } = passage.glossary;
  part("glossary-toggle").textContent = size ? `Glossary (${size})` : "Glossary";
  part("terms").replaceChildren(...[...passage.glossary].map(([term, choices]) => row(term, choices)));
}

function row(term, choices) {
  const remove = make("button", { type: "button", className: "plain", textContent: "Remove" });
  remove.setAttribute("aria-label", `Remove ${term}`);
  remove.addEventListener("click", () => {
    passage.glossary.delete(term);
    changed();
    part("term-source").focus();
  });
  const texts = [term, choices.join(" | ")].map((textContent) => make("td", { textContent, dir: "auto" }));
  return make("tr", {}, ...texts, make("td", stateOf(choices)), make("td", {}, remove));
}

/** Returns how a term came out in the text, in words, and their class. */
function stateOf(choices) {
  if (!passage.segments.every(isChecked)) return { textContent: "…" };
  const found = passage.segments.flatMap(outcomes).filter(({ terms }) => isSame(terms, choices));
  if (!found.length) return { textContent: "does not occur" };
  const number = (name) => found.filter((each) => each[name]).length;
  const [times, honoured, appended, edited] = [found.length, number("isHonoured"), number("isAppended"), number("isEditedOut")];
  const counted = times > 1 ? `used ${honoured} of ${times} times` : honoured ? "used" : "not used";
  const isLost = honoured < times;
  const reasons = [
    edited ? (times > 1 ? "you edited sentences" : "you edited the sentence") : "",
    isLost && edited < times - honoured ? "the model did not write it" : "",
    appended ? "added after the sentence: the model saw no place" : "",
    !appended && number("isForced") ? "please check: the model expected another word" : "",
  ];
  const failure = isLost || appended ? "missed" : "check";
  const isFine = !isLost && !number("isForced");
  return { className: isFine ? "honoured" : failure, textContent: [counted, ...reasons.filter(Boolean)].join(" – ") };
}
