// Starts the page.

import { startAlternatives } from "./alternatives.js";
import { startAnnouncements } from "./announcements.js";
import { offer, startAttention } from "./attention.js";
import { startConfidence } from "./confidence.js";
import { resumeDocuments, startDocuments } from "./documents.js";
import { part } from "./dom.js";
import { discard, rememberPlaces, startEditing } from "./editing.js";
import { offerTerms, startGlossary } from "./glossary.js";
import { startHistory } from "./history.js";
import { choose, loadLanguages, onLanguageChoice, source, swap } from "./languages.js";
import { startLinks } from "./links.js";
import { edited, restart, translateNow } from "./live.js";
import { draw } from "./mirror.js";
import { startNotices } from "./notices.js";
import { passage } from "./passage.js";
import { setKey } from "./requests.js";
import { linked, startSharing, tell } from "./sharing.js";
import { failed, show } from "./status.js";
import { readSession, writeSession } from "./storage.js";
import { startUnsure } from "./unsure.js";

const field = part("text");

/** Takes over the text of the field. */
function read() {
  if (field.value === passage.text) return;
  passage.text = field.value;
  writeSession("text", passage.text || null);
  passage.changed();
  edited();
}

/** Writes a text into the field as if it had been typed. */
function write(text) {
  field.value = text;
  read();
}

/** Puts languages and text back, of a link or of the history. */
function open({ source: from, target: to, text, glossary = [] }) {
  offerTerms(glossary);
  choose(from, to);
  write(text);
  restart();
}

function showText() {
  draw();
  rememberPlaces();
  part("count").textContent = passage.text ? `${passage.text.length.toLocaleString("en")} characters` : "";
  part("clear").disabled = !passage.text;
  part("discard").disabled = !passage.isEdited;
}

function startText() {
  passage.addEventListener("change", showText);
  field.addEventListener("input", read);
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    translateNow();
  });
  part("clear").addEventListener("click", () => {
    field.focus();
    field.select();
    if (!document.execCommand("delete")) write(""); // by the command, so that the browser can undo it
  });
  part("discard").addEventListener("click", () => {
    discard();
    part("output").focus();
  });
  part("swap").addEventListener("click", () => {
    const from = source();
    const { translation } = passage;
    if (!swap()) {
      show(from ? "There is no model for the way back." : "The language of the text is not known yet.");
      return;
    }
    if (translation.trim()) write(translation);
    restart();
  });
}

function startDialogs() {
  part("help-open").addEventListener("click", () => part("help").showModal());
  part("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    setKey(part("key").value);
    part("key-form").hidden = true;
    field.focus();
    translateNow();
  });
}

/** Asks for the languages until the service returns them; what is typed meanwhile waits. */
async function start() {
  try {
    await loadLanguages();
    offer();
    show("");
  } catch (error) {
    failed(error, start);
    return;
  }
  resumeDocuments();
  const given = linked();
  if (given) open(given);
  else write(field.value || readSession("text", ""));
  if (field.value && readSession("edited", false)) tell("Your edits of the translation were not kept.");
  window.addEventListener("pagehide", () => writeSession("edited", passage.isEdited || null));
  window.addEventListener("hashchange", () => linked() && open(linked()));
  document.documentElement.dataset.ready = Math.round(performance.now()); // milliseconds, for whoever waits or measures
}

startEditing();
startText();
startLinks();
startAlternatives();
startConfidence();
startUnsure();
startNotices();
startAnnouncements();
startGlossary();
startHistory(open);
startSharing();
startAttention();
startDocuments();
startDialogs();
onLanguageChoice(() => {
  offer();
  restart();
});
start();
