// The attention of a sentence: what each head of the model looks at. Shown by the explorer, in a frame of its own.

import { make, part } from "./dom.js";
import { attends, source, target } from "./languages.js";
import { passage } from "./passage.js";
import { ask } from "./requests.js";
import { show as say } from "./status.js";

let sentences = []; // the segments that can be chosen
let running = null; // the controller of the request
let isWhole = false; // whether layers, heads and statistics are shown too

export function startAttention() {
  part("attention-open").addEventListener("click", open);
  part("attention-sentence").addEventListener("change", change);
  passage.addEventListener("change", offer);
  part("attention").addEventListener("close", () => {
    running?.abort();
    keepOpen();
    part("attention-frame").hidden = true;
    part("attention-frame").removeAttribute("src");
  });
}

/** Offers the attention where the engine returns it, and there is a translation. */
export function offer() {
  part("attention-open").hidden = !attends();
  for (const each of part("help").querySelectorAll(".attention")) each.hidden = !attends();
  part("attention-open").disabled = !passage.translation || !passage.isCurrent;
}

/** Shows the attention of the sentence at the cursor, or of the first one. */
async function open() {
  sentences = passage.segments.filter((each) => each.source.trim() && each.text);
  if (!sentences.length || !passage.isCurrent) return;
  const here = Math.max(0, sentences.indexOf(passage.placeAt(part("output").selectionStart)?.segment));
  say("The model reads the sentence again …");
  try {
    const data = await attentionOf(sentences[here]);
    say("");
    const choices = sentences.map((each, index) => make("option", { textContent: `${index + 1}. ${each.source}` }));
    part("attention-sentence").replaceChildren(...choices);
    part("attention-sentence").selectedIndex = here;
    part("attention-sentence").hidden = sentences.length === 1;
    part("attention-note").textContent = "";
    part("attention").showModal();
    await show(data);
    part("attention-frame").focus(); // so that its keys work at once
  } catch (error) {
    if (error.name !== "AbortError") say(`The attention cannot be shown: ${error.message}`, true);
  }
}

/** Shows the attention of the sentence that was chosen. */
async function change() {
  try {
    const data = await attentionOf(sentences[part("attention-sentence").selectedIndex]);
    part("attention-note").textContent = "";
    keepOpen();
    await show(data);
  } catch (error) {
    if (error.name !== "AbortError") part("attention-note").textContent = `It cannot be shown: ${error.message}`;
  }
}

/** Remembers for the next sentence whether all is shown. */
function keepOpen() {
  isWhole = part("attention-frame").contentDocument?.getElementById("more")?.open ?? isWhole;
}

/** Asks for the attention of a sentence; a request for another one is cancelled. */
function attentionOf({ source: text, text: translation }) {
  running?.abort();
  running = new AbortController();
  const fields = { text, source: source(), target: target(), translation };
  return ask("api/attention", { fields, signal: running.signal });
}

/** Loads the explorer into the frame, and hands it the data. */
function show(attention) {
  const frame = part("attention-frame");
  frame.hidden = false;
  return new Promise((resolve) => {
    frame.onload = () => {
      if (!frame.getAttribute("src")) return;
      frame.contentWindow.addEventListener("keydown", closeOnEscape);
      frame.contentWindow.postMessage({ attention, isWhole }, location.origin);
      resolve();
    };
    frame.src = "page/explorer.html";
  });
}

/** Closes the dialog by a key in the frame, unless the explorer used it. */
function closeOnEscape({ key, defaultPrevented }) {
  if (key === "Escape" && !defaultPrevented) part("attention").close();
}
