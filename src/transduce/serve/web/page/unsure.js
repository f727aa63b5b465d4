// Goes from one unsure word of the translation to the next, the least sure first.

import { announce, part, percent } from "./dom.js";
import { mark } from "./links.js";
import { isUnsure, wordOf } from "./mirror.js";
import { passage } from "./passage.js";

let last = null; // {segment, start} of the word that was shown

export function startUnsure() {
  part("unsure").addEventListener("click", next);
  document.addEventListener("keydown", (event) => {
    if (event.key !== "F8" || document.querySelector("dialog[open]")) return;
    event.preventDefault();
    next();
  });
  passage.addEventListener("change", () => {
    part("unsure").hidden = !passage.translation;
    part("unsure").disabled = !words().length;
  });
}

/** Returns the elements of the unsure words, the least sure first. */
function words() {
  const all = [...part("output-mirror").querySelectorAll(".word")].filter((each) => isUnsure(wordOf(each)));
  return all.sort((a, b) => wordOf(a).probability - wordOf(b).probability);
}

function next() {
  const all = words();
  if (!all.length) {
    announce("There are no unsure words.");
    return;
  }
  const isLast = (each) => wordOf(each).segment === last?.segment && wordOf(each).start === last.start;
  const index = (all.findIndex(isLast) + 1) % all.length;
  const { segment, start, probability } = (last = wordOf(all[index]));
  const at = passage.placeOf(segment).start + start;
  part("output").focus();
  part("output").setSelectionRange(at, at);
  all[index].scrollIntoView({ block: "nearest" });
  mark(all[index]);
  announce(`${all[index].textContent}: ${percent(probability)}. Unsure word ${index + 1} of ${all.length}.`);
}
