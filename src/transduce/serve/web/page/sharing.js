// Copying: the translation, a link that carries the text, and the request as a command.

import { part } from "./dom.js";
import { chosenSource, target } from "./languages.js";
import { passage } from "./passage.js";
import { hasKey } from "./requests.js";

const SHOWN_MS = 4000;

let timer = 0;
let opened = ""; // the fragment of the link that was opened last; another one in the address is still to be opened

export function startSharing() {
  const edits = () => (passage.isEdited ? " Your edits are not in it." : "");
  button("copy", () => passage.translation, () => "Translation copied.");
  button("copy-link", link, () => `Link copied.${edits()}`);
  button("copy-curl", command, () => `Command copied.${edits()}`);
}

/** Returns the address of this page with the text and the glossary. They are in the fragment, which browsers never send to a server. */
export function link() {
  const fields = new URLSearchParams({ source: chosenSource(), target: target(), text: passage.text });
  if (passage.glossary.size) fields.set("glossary", JSON.stringify([...passage.glossary]));
  return `${location.origin}${location.pathname}#${fields}`;
}

/** Returns what a link carries: {source, target, text, glossary}, or null. */
export function linked() {
  const fields = new URLSearchParams(location.hash.slice(1));
  return fields.has("text") ? { ...Object.fromEntries(fields), glossary: termsOf(fields.get("glossary")) } : null;
}

/** Notes that the link in the address was opened. */
export function noteOpened() {
  opened = location.hash;
}

/** Takes the opened link out of the address: a reload brings back the user's own work, and not the link's text. */
export function dropLink() {
  if (opened && location.hash === opened) history.replaceState(null, "", location.pathname + location.search);
}

/** Returns the terms of a link; what is no list of terms is left out. */
function termsOf(written) {
  try {
    const isText = (each) => typeof each === "string" && each !== "";
    const isTerm = (each) => isText(each?.[0]) && Array.isArray(each[1]) && each[1].length > 0 && each[1].every(isText);
    return JSON.parse(written ?? "[]").filter(isTerm);
  } catch {
    return []; // the link was cut, say
  }
}

/** Returns the command that asks the service for this translation; it names the key and does not contain it. */
export function command() {
  const fields = { text: passage.text, ...passage.requestFields(chosenSource(), target()) };
  const quote = (text) => `'${text.replaceAll("'", "'\\''")}'`;
  const key = hasKey() ? ` -H "Authorization: Bearer $TRANSDUCE_KEY"` : "";
  const address = new URL("api/translate", location.href.split("#")[0]).href;
  return `curl ${address} -H 'Content-Type: application/json'${key} -d ${quote(JSON.stringify(fields))}`;
}

/** Says for a while what was done. */
export function tell(message) {
  clearTimeout(timer);
  part("said").textContent = message;
  timer = setTimeout(() => (part("said").textContent = ""), SHOWN_MS);
}

function button(id, text, done) {
  part(id).addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text());
      tell(done());
    } catch {
      tell("The browser does not allow copying.");
    }
  });
}
