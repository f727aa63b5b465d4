// The attention of a sentence: what each head of the model looks at. Shown by the explorer, in a frame of its own.

import { part } from "./dom.js";
import { source, target } from "./languages.js";
import { passage } from "./passage.js";
import { ask } from "./requests.js";

export function startAttention() {
  part("attention-open").addEventListener("click", open);
  part("attention").addEventListener("close", () => {
    part("attention-frame").hidden = true;
    part("attention-frame").removeAttribute("src");
  });
}

/** Shows the attention of the sentence at the cursor, or of the first one. */
async function open() {
  const note = part("attention-note");
  const segment = passage.placeAt(part("output").selectionStart)?.segment;
  part("attention").showModal();
  if (!segment?.text || !passage.isCurrent) {
    note.textContent = "There is no translation yet.";
    return;
  }
  note.textContent = "The model reads the sentence again …";
  try {
    const fields = { text: segment.source, source: source(), target: target(), translation: segment.text };
    const data = await ask("api/attention", { fields });
    await show(data);
    note.textContent = "";
  } catch (error) {
    note.textContent = error.message;
  }
}

/** Loads the explorer into the frame, and hands it the data. */
function show(data) {
  const frame = part("attention-frame");
  frame.hidden = false;
  return new Promise((resolve) => {
    frame.onload = () => {
      if (!frame.getAttribute("src")) return;
      frame.contentWindow.postMessage(data, location.origin);
      resolve();
    };
    frame.src = "page/explorer.html";
  });
}
