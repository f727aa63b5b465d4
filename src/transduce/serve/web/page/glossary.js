// The glossary: terms with their translations, and which of them came out.

import { disclosure, make, part } from "./dom.js";
import { source, target } from "./languages.js";
import { restart } from "./live.js";
import { passage } from "./passage.js";
import { ask } from "./requests.js";
import { failed } from "./status.js";
import { readLasting, writeLasting } from "./storage.js";

export function startGlossary() {
  const terms = readLasting("glossary", []);
  passage.glossary = new Map(terms);
  const open = disclosure(part("glossary-toggle"), part("glossary"), () => part("term-source").focus());
  if (terms.length) open(true);
  part("term-form").addEventListener("submit", (event) => {
    event.preventDefault();
    add(part("term-source").value.trim(), part("term-target").value);
  });
  passage.addEventListener("change", show);
  show();
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

/** Asks which terms occur in the sentences that the user worked on: these are not translated again. */
async function recheck() {
  const edited = passage.segments.filter((each) => each.isEdited);
  if (!edited.length || !source()) return;
  const text = edited.map((each) => each.source);
  const fields = { ...passage.requestFields(source(), target()), text, confidence: false, alignment: false };
  try {
    const { translations } = await ask("api/translate", { fields });
    edited.forEach((segment, index) => {
      segment.translation = { ...segment.translation, required: translations[index].required };
    });
    passage.changed();
  } catch (error) {
    failed(error, recheck);
  }
}

/** Returns in how many sentences a term was required, in how many it came out, and in how many only by force. */
export function outcome(choices, segments) {
  const wanted = JSON.stringify(choices);
  const all = segments.flatMap((segment) => segment.translation.required.map((each) => ({ segment, ...each })));
  const required = all.filter(({ terms }) => JSON.stringify(terms) === wanted);
  const isIn = ({ segment, terms }) => terms.some((term) => segment.text.toLowerCase().includes(term.toLowerCase()));
  const honoured = required.filter((each) => (each.segment.isEdited ? isIn(each) : each.found));
  const forced = honoured.filter((each) => each.forced && !each.segment.isEdited);
  return { required: required.length, honoured: honoured.length, forced: forced.length };
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
  const { required, honoured, forced } = outcome(choices, passage.segments);
  const counted = required > 1 ? `honoured ${honoured} of ${required} times` : honoured ? "honoured" : "not honoured";
  const state = !required
    ? make("td", { textContent: "does not occur" })
    : make("td", {
        className: honoured === required && !forced ? "honoured" : "missed",
        textContent: forced ? `${required > 1 ? `${counted}, ` : ""}forced – please check` : counted,
      });
  const texts = [term, choices.join(" | ")].map((textContent) => make("td", { textContent, dir: "auto" }));
  return make("tr", {}, ...texts, state, make("td", {}, remove));
}
