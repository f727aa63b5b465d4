// Starts the page.

import { startAlternatives } from "./alternatives.js";
import { startAnnouncements } from "./announcements.js";
import { offer, startAttention } from "./attention.js";
import { startConfidence } from "./confidence.js";
import { resumeDocuments, startDocuments } from "./documents.js";
import { disclosure, part } from "./dom.js";
import { discard, rememberPlaces, startEditing } from "./editing.js";
import { offerTerms, startGlossary } from "./glossary.js";
import { startHistory } from "./history.js";
import { choose, loadLanguages, onLanguageChoice, swap } from "./languages.js";
import { startLinks } from "./links.js";
import { edited, restart, translateNow } from "./live.js";
import { draw } from "./mirror.js";
import { startNotices } from "./notices.js";
import { passage } from "./passage.js";
import { setKey } from "./requests.js";
import { linked, startSharing, tell } from "./sharing.js";
import { startSourceCheck } from "./source_check.js";
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
  const { length } = passage.text;
  part("count").textContent = length ? `${length.toLocaleString("en")} ${length === 1 ? "character" : "characters"}` : "";
  part("actions").hidden = !passage.translation.trim();
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
    const { translation } = passage;
    swap();
    if (translation.trim()) write(translation);
    restart();
  });
}

/** Opens and closes the menu of further tools. It closes after a choice, by Escape, and by a click elsewhere. */
function startMenu() {
  const menu = part("more");
  const set = disclosure(part("more-toggle"), menu);
  const isInside = (node) => menu.contains(node) || part("more-toggle").contains(node);
  const chosen = ({ target: clicked }) => {
    if (!clicked.closest("button")) return;
    set(false);
    part("more-toggle").focus();
  };
  menu.addEventListener("click", chosen, true); // before what the button does: a dialog gives the focus back
  menu.parentElement.addEventListener("keydown", ({ key }) => {
    if (key !== "Escape" || menu.hidden) return;
    set(false);
    part("more-toggle").focus();
  });
  for (const name of ["pointerdown", "focusin"]) {
    document.addEventListener(name, ({ target: other }) => isInside(other) || set(false));
  }
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
startSourceCheck();
startAnnouncements();
startGlossary();
startHistory(open);
startSharing();
startAttention();
startDocuments();
startDialogs();
startMenu();
onLanguageChoice(() => {
  offer();
  restart();
});
start();
