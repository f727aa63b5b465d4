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
  if (terms.length) open(true);
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
 * Returns what became of each term of the glossary that a sentence requires: {terms, isHonoured, isForced, isAppended}.
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
    return { terms, isHonoured, isForced, isAppended };
  });
}

/** Returns whether a span of a text is alone after the end of the sentence, as in "A man sleeps. Cat". */
function isAfterEnd(text, { start, end }) {
  return ENDS.test(text.slice(0, start).trimEnd()) && !/[\p{L}\p{N}]/u.test(text.slice(end));
}

function show() {
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
  const honoured = found.filter((each) => each.isHonoured).length;
  const isForced = found.some((each) => each.isForced);
  const cause = found.some((each) => each.isAppended) ? "added at the end" : "used";
  const times = found.length;
  const counted = times > 1 ? `honoured ${honoured} of ${times} times` : honoured ? "honoured" : "not honoured";
  return {
    className: honoured === times && !isForced ? "honoured" : "missed",
    textContent: isForced ? `${times > 1 ? `${counted}, ` : ""}${cause} – please check` : counted,
  };
}
