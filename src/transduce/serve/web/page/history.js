// The history: off until it is turned on, and in this browser only.

import { disclosure, make, part } from "./dom.js";
import { chosenSource, target } from "./languages.js";
import { passage } from "./passage.js";
import { readLasting, writeLasting } from "./storage.js";

const MOST = 50;
const QUIET_MS = 2500; // after the last change, a translation is taken for finished

let timer = 0;

/** Starts the history; `open` puts an entry back into the page. */
export function startHistory(open) {
  disclosure(part("history-toggle"), part("history"), () => show(open));
  part("history-on").checked = isOn();
  part("history-on").addEventListener("change", ({ target: { checked } }) => {
    writeLasting("history", checked ? [] : null);
    if (checked) keep();
    show(open);
  });
  part("history-clear").addEventListener("click", () => {
    writeLasting("history", []);
    show(open);
    part("history-on").focus();
  });
  passage.addEventListener("change", () => {
    clearTimeout(timer);
    if (isOn()) timer = setTimeout(() => { keep(); show(open); }, QUIET_MS);
  });
}

const isOn = () => readLasting("history", null) !== null;

/** Keeps the text with its translation. One that was typed further replaces what it began as. */
function keep() {
  if (!passage.text.trim() || !passage.isCurrent) return;
  const entry = { source: chosenSource(), target: target(), text: passage.text, translation: passage.translation };
  const [last, ...others] = readLasting("history", []);
  const [shorter, longer] = [entry.text, last?.text ?? ""].sort((a, b) => a.length - b.length);
  const isSame = last && last.target === entry.target && longer.startsWith(shorter);
  writeLasting("history", [entry, ...(isSame ? others : last ? [last, ...others] : [])].slice(0, MOST));
}

function show(open) {
  if (part("history").hidden) return;
  const entries = readLasting("history", null) ?? [];
  part("history-clear").hidden = !entries.length;
  part("entries").replaceChildren(
    ...entries.map((entry) => {
      const shown = [entry.text, entry.translation].map((textContent) => make("span", { textContent, dir: "auto" }));
      const button = make("button", { type: "button", className: "plain" }, ...shown);
      button.addEventListener("click", () => open(entry));
      return make("li", {}, button);
    }),
  );
}
