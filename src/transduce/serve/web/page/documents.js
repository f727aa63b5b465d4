// Documents: dropped or chosen, translated as a whole, with progress; they can be cancelled and downloaded.

import { make, part } from "./dom.js";
import { chosenSource, target } from "./languages.js";
import { ask, send } from "./requests.js";

const POLL_MS = 500;

export function startDocuments() {
  part("file").addEventListener("change", ({ target: input }) => {
    for (const file of input.files) translate(file);
    input.value = "";
  });
  const hasFiles = (event) => event.dataTransfer?.types.includes("Files");
  document.addEventListener("dragover", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    document.body.classList.add("dragging");
  });
  document.addEventListener("dragleave", ({ relatedTarget }) => {
    if (!relatedTarget) document.body.classList.remove("dragging");
  });
  document.addEventListener("drop", (event) => {
    document.body.classList.remove("dragging");
    if (!hasFiles(event)) return;
    event.preventDefault();
    for (const file of event.dataTransfer.files) translate(file);
  });
}

function translate(file) {}
