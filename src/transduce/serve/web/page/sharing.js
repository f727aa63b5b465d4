// Copying: the translation, a link that carries the text, and the request as a command.

import { announce, part } from "./dom.js";
import { chosenSource, target } from "./languages.js";
import { passage } from "./passage.js";
import { hasKey } from "./requests.js";

const SHOWN_MS = 1600;

export function startSharing() {
  button("copy", () => passage.translation);
  button("copy-link", link);
  button("copy-curl", command);
}

/** Returns the address of this page with the text. It is in the fragment, which browsers never send to a server. */
export function link() {
  const fields = new URLSearchParams({ source: chosenSource(), target: target(), text: passage.text });
  return `${location.origin}${location.pathname}#${fields}`;
}

/** Returns what a link carries: {source, target, text}, or null. */
export function linked() {
  const fields = new URLSearchParams(location.hash.slice(1));
  return fields.has("text") ? Object.fromEntries(fields) : null;
}

/** Returns the command that asks the service for this translation; the key is named and not told. */
export function command() {
  const fields = { text: passage.text, ...passage.requestFields(chosenSource(), target()) };
  const quote = (text) => `'${text.replaceAll("'", "'\\''")}'`;
  const key = hasKey() ? ` -H "Authorization: Bearer $TRANSDUCE_KEY"` : "";
  const address = new URL("api/translate", location.href.split("#")[0]).href;
  return `curl ${address} -H 'Content-Type: application/json'${key} -d ${quote(JSON.stringify(fields))}`;
}

function button(id, text) {
  const { textContent: name } = part(id);
  part(id).addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text());
      part(id).textContent = "Copied";
      announce("Copied");
    } catch {
      part(id).textContent = "Not allowed"; // by the browser
      announce("The browser does not allow copying.");
    }
    setTimeout(() => {
      part(id).textContent = name;
      announce("");
    }, SHOWN_MS);
  });
}
