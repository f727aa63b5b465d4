// The attention of a sentence: what each head of the model looks at. Shown by the explorer, in a frame of its own.

import { part } from "./dom.js";
import { attends, source, target } from "./languages.js";
import { passage } from "./passage.js";
import { ask } from "./requests.js";
import { show as say } from "./status.js";

export function startAttention() {
  part("attention-open").addEventListener("click", open);
  passage.addEventListener("change", offer);
  part("attention").addEventListener("close", () => {
    part("attention-frame").hidden = true;
    part("attention-frame").removeAttribute("src");
  });
}

/** Offers the attention where the engine can tell it, and there is a translation. */
export function offer() {
  part("attention-open").hidden = !attends();
  part("attention-open").disabled = !passage.translation || !passage.isCurrent;
}

/** Shows the attention of the sentence at the cursor, or of the first one. */
async function open() {
  const segment = passage.placeAt(part("output").selectionStart)?.segment;
  if (!segment?.text || !passage.isCurrent) return;
  say("The model reads the sentence again …");
  try {
    const fields = { text: segment.source, source: source(), target: target(), translation: segment.text };
    const data = await ask("api/attention", { fields });
    say("");
    part("attention").showModal();
    await show(data);
  } catch (error) {
    say(`The attention cannot be shown: ${error.message}`, true);
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
