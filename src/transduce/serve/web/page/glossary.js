// The glossary: terms with their translations, and which of them came out.

import { disclosure, make, part } from "./dom.js";
import { restart } from "./live.js";
import { passage } from "./passage.js";
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
}

/** Returns in how many sentences a term was required, and in how many it came out. */
export function outcome(choices, segments) {
  const wanted = JSON.stringify(choices);
  const all = segments.flatMap((each) => each.translation.required);
  const found = all.filter(({ terms }) => JSON.stringify(terms) === wanted);
  return { required: found.length, honoured: found.filter((each) => each.found).length };
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
  const { required, honoured } = outcome(choices, passage.segments);
  const state = !required
    ? make("td", { textContent: "does not occur" })
    : make("td", {
        className: honoured === required ? "honoured" : "missed",
        textContent: required > 1 ? `honoured ${honoured} of ${required} times` : honoured ? "honoured" : "not honoured",
      });
  const texts = [term, choices.join(" | ")].map((textContent) => make("td", { textContent, dir: "auto" }));
  return make("tr", {}, ...texts, state, make("td", {}, remove));
}
