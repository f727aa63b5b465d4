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
import { choose, loadLanguages, onLanguageChoice, swap, target, textLimit } from "./languages.js";
import { startLinks } from "./links.js";
import { edited, restart, translateNow } from "./live.js";
import { draw } from "./mirror.js";
import { startNotices } from "./notices.js";
import { passage } from "./passage.js";
import { setKey } from "./requests.js";
import { dropLink, linked, noteOpened, startSharing, tell } from "./sharing.js";
import { startSourceCheck } from "./source_check.js";
import { failed, show } from "./status.js";
import { readSession, writeSession } from "./storage.js";
import { canUndo, remember, startUndo } from "./undo.js";
import { startUnsure } from "./unsure.js";
import { hasLostWork, restoreWork, startKeeping } from "./work.js";

const NEAR = 0.9; // share of the limit from which it is shown
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

/** Keeps what another text is about to replace. */
function rememberAll(next) {
  if (passage.text.trim() && (passage.text !== next || passage.isEdited)) remember(0, { isWhole: true, next });
}

/** Puts languages and text back, of a link or of the history. Undo brings back what was there. */
function open({ source: from, target: to, text, glossary = [] }, what) {
  if (passage.text.trim() && passage.text !== text) tell(`${what} replaced your text. Undo brings it back.`);
  rememberAll(text);
  offerTerms(glossary);
  choose(from, to);
  write(text);
  restart();
}

function showText() {
  draw();
  rememberPlaces();
  showCount();
  part("actions").hidden = !passage.translation.trim() && !passage.isEdited && !canUndo();
  part("clear").disabled = !passage.text;
  part("discard").disabled = !passage.isEdited;
  if (passage.isEdited) dropLink();
  part("tip").hidden = !passage.translation.trim();
}

/** Shows the length of the text, with the limit once it is near. */
function showCount() {
  const { numCharacters: length } = passage;
  const limit = textLimit();
  const [written, most] = [length, limit].map((each) => each.toLocaleString("en"));
  const counted = length > NEAR * limit ? `${written} of ${most} characters` : `${written} ${length === 1 ? "character" : "characters"}`;
  part("count").textContent = length ? counted : "";
  part("count").classList.toggle("over", length > limit);
}

/** Keeps the page where it is when much is pasted: the cursor is at the end then, and the browser would go there. */
function stayAtPaste() {
  let place = [];
  field.addEventListener("beforeinput", () => (place = [scrollX, scrollY]));
  field.addEventListener("input", ({ inputType }) => {
    if (/^insertFrom/.test(inputType)) requestAnimationFrame(() => window.scrollTo(...place));
  });
}

function startText() {
  stayAtPaste();
  passage.addEventListener("change", showText);
  field.addEventListener("input", read);
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    translateNow();
  });
  part("clear").addEventListener("click", () => {
    rememberAll("");
    field.focus();
    write("");
  });
  part("discard").addEventListener("click", () => {
    discard();
    part("output").focus();
  });
  part("swap").addEventListener("click", () => {
    const { translation } = passage;
    rememberAll(translation);
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
  const isTyped = passage.text !== "";
  field.value ||= readSession("text", "");
  if (!isTyped && restoreWork(field.value)) passage.text = field.value;
  const isLost = field.value && hasLostWork();
  const openLink = () => {
    if (!linked()) return;
    noteOpened();
    open(linked(), "The link");
  };
  startKeeping();
  if (linked()) {
    passage.text = field.value;
    openLink();
  } else {
    passage.changed();
    if (field.value === passage.text) translateNow();
    else read();
  }
  if (isLost) tell("Your edits of the translation were not kept.");
  window.addEventListener("hashchange", openLink);
  document.addEventListener("input", dropLink);
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
startHistory((entry) => open(entry, "The entry"));
startSharing();
startAttention();
startDocuments();
startDialogs();
startMenu();
startUndo();
onLanguageChoice((before) => {
  offer();
  const keepsWording = before[1] === target(); // what the user wrote is still in the language of the translation
  if (!keepsWording && passage.isEdited) remember(0, { isWhole: true, next: passage.text, languages: before });
  restart({ keepsWording });
});
start();
