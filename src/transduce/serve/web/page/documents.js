// Documents: dropped or chosen, translated as a whole, with progress; they can be cancelled and downloaded.

import { chooseColumns } from "./columns.js";
import { announce, make, part } from "./dom.js";
import { chosenSource, formats, target } from "./languages.js";
import { passage } from "./passage.js";
import { ask, send } from "./requests.js";
import { readSession, writeSession } from "./storage.js";

const POLL_MS = 500;
const LONGEST_POLL_MS = 8000; // while the service does not answer
const CONVERT = "A PDF has to be converted first: open it in Word or LibreOffice, and save it as DOCX.";
// Kinds of documents, and the titles of their formats.
const KINDS = [
  ["Office documents", ["DOCX", "PPTX", "XLSX", "ODT"]],
  ["web pages", ["HTML"]],
  ["e-books", ["EPUB"]],
  ["subtitles", ["SRT", "WebVTT"]],
  ["texts", ["plain text", "Markdown"]],
  ["tables", ["CSV"]],
  ["files of translation tools", ["PO", "TMX", "XLIFF"]],
  ["texts of programs", ["JSON", "YAML", "ARB", "Apple strings"]],
];

/** One document: its line in the list, and what the service knows of it. */
class Job {
  constructor(file, known = null) {
    this.file = file; // null after the page was loaded again
    this.known = known;
    this.isGone = false;
    this.state = make("span", { className: "outcome", role: "status" });
    this.bar = make("progress", { max: 1, value: 0 });
    this.buttons = make("span", { className: "row" });
    const name = file?.name ?? known.name;
    this.bar.setAttribute("aria-label", `Progress of ${name}`);
    const title = make("span", { className: "name", textContent: name, dir: "auto" });
    this.columns = ""; // of a CSV file, as the service reads them
    this.line = make("li", {}, title, this.bar, this.buttons, this.state);
    part("jobs").append(this.line);
  }

  /** Sends the file, and follows it. */
  async start() {
    if (/\.pdf$/i.test(this.file.name) && !formats().includes("PDF")) {
      this.fail(CONVERT);
      return;
    }
    if (/\.[ct]sv$/i.test(this.file.name) && !this.columns) {
      this.askForColumns();
      return;
    }
    this.show("Sending …", { Cancel: () => this.remove() });
    const body = new FormData();
    body.append("file", this.file);
    body.append("source", chosenSource());
    body.append("target", target());
    if (this.columns) body.append("columns", this.columns);
    if (passage.glossary.size) body.append("glossary", JSON.stringify(Object.fromEntries(passage.glossary)));
    this.sending = new AbortController();
    try {
      this.known = await ask("api/documents", { body, signal: this.sending.signal });
    } catch (error) {
      const isFile = error.isRefusal && error.status !== 401; // what is refused; else the key, or for a while
      const again = isFile ? {} : { "Try again": () => this.start() };
      if (!this.isGone) this.fail(error.message, again);
      return;
    }
    remember();
    this.follow();
  }

  /** Shows the columns of a table, and starts once the user has chosen some. */
  async askForColumns() {
    let choice;
    try {
      choice = await chooseColumns(this.file, (columns) => {
        choice.remove();
        this.columns = columns;
        this.start();
      });
    } catch {
      this.fail("The file cannot be read."); // it was changed or removed, or is a folder
      return;
    }
    if (this.isGone) return;
    this.line.append(choice);
    this.show("Which columns are to be translated?", { Remove: () => this.remove() });
  }

  /** Asks how far it is until it is done. */
  async follow() {
    let wait = POLL_MS;
    while (!this.isGone) {
      try {
        this.known = await ask(`api/documents/${this.known.id}`);
        wait = POLL_MS;
      } catch (error) {
        if (!error.isTemporary) {
          this.fail(error.message);
          return;
        }
        wait = Math.min(2 * wait, LONGEST_POLL_MS);
        this.state.textContent = `${error.message} The page asks again by itself.`;
      }
      if (wait === POLL_MS && this.showKnown()) return;
      await new Promise((resolve) => {
        setTimeout(resolve, wait);
        if (wait > POLL_MS) window.addEventListener("online", resolve, { once: true });
      });
    }
  }

  /** Shows what is known; returns whether that is the end. */
  showKnown() {
    const { state, progress, warnings, error } = this.known;
    this.bar.value = progress;
    const remove = { Remove: () => this.remove() };
    if (state === "failed") {
      this.fail(error, this.file ? { "Try again": () => this.again() } : {});
    } else if (state === "done") {
      const number = warnings.length === 1 ? "One remark" : `${warnings.length} remarks`;
      const remarks = warnings.length ? ` ${number}: ${warnings.slice(0, 3).map((each) => this.withoutName(each)).join(" ")}` : "";
      this.show(`Done.${remarks}`, { Download: () => this.download(), ...remove });
    } else {
      const waiting = { reading: "Reading the text", queued: "Waiting" };
      const shown = waiting[state] ?? `${Math.floor(100 * progress)} %`;
      this.show(shown, { Cancel: () => this.remove() });
      return false;
    }
    return true;
  }

  /** Sends the file once more, in place of the document that failed. */
  again() {
    this.forget();
    this.known = null;
    this.start();
  }

  /** Shows why it failed. */
  fail(message, buttons = {}) {
    this.show(`Failed: ${this.withoutName(message)}`, { ...buttons, Remove: () => this.remove() }, true);
  }

  /** Returns a message of the service without the name of the file, which is beside it. */
  withoutName(message) {
    const name = this.known?.name ?? this.file.name;
    if (!message.startsWith(`${name}: `)) return message;
    const what = message.slice(name.length + 2);
    return /^(is|has|takes|cannot) /.test(what) ? `The file ${what}` : what[0].toUpperCase() + what.slice(1);
  }

  show(text, buttons, isFailure = false) {
    this.state.setAttribute("role", isFailure ? "alert" : "status");
    this.state.classList.toggle("missed", isFailure);
    this.bar.hidden = !Object.keys(buttons).includes("Cancel");
    if (this.state.textContent !== text) this.state.textContent = text;
    const names = [...this.buttons.children].map((each) => each.textContent);
    if (names.join() === Object.keys(buttons).join()) return; // a button that has the focus stays
    const made = Object.entries(buttons).map(([textContent, act]) => {
      const className = textContent === "Download" ? "" : "plain";
      const button = make("button", { type: "button", textContent, className });
      button.setAttribute("aria-label", `${textContent} ${this.file?.name ?? this.known.name}`);
      button.addEventListener("click", act);
      return button;
    });
    const hadFocus = this.buttons.contains(document.activeElement);
    this.buttons.replaceChildren(...made);
    if (hadFocus) made[0].focus();
  }

  async download() {
    try {
      const response = await send(`api/documents/${this.known.id}/result`);
      const address = URL.createObjectURL(await response.blob());
      const link = make("a", { href: address, download: this.known.result_name });
      link.click();
      URL.revokeObjectURL(address);
    } catch (error) {
      this.fail(error.message, error.isTemporary ? { Download: () => this.download() } : {});
    }
  }

  /** Ends its translation, and deletes it here and at the service. */
  async remove() {
    this.isGone = true;
    this.sending?.abort();
    this.line.remove();
    jobs.delete(this);
    remember();
    part("file").focus();
    announce("Removed.");
    await this.forget();
  }

  /** Deletes the document at the service. */
  async forget() {
    if (!this.known) return;
    await send(`api/documents/${this.known.id}`, { method: "DELETE" }).catch(() => {
      announce("The service could not be reached. It deletes the document later."); // documents expire
    });
  }
}

const jobs = new Set();

/** Says which documents can be translated, and that the glossary is for them too. */
function showFormats() {
  const terms = passage.glossary.size ? " The glossary applies to documents too." : "";
  const served = formats();
  if (!served.length) return;
  const kinds = KINDS.filter(([, titles]) => titles.some((each) => served.includes(each))).map(([kind]) => kind);
  const text = `${kinds.join(", ")}. ${served.includes("PDF") ? "" : CONVERT}${terms}`;
  if (part("kinds").textContent !== text) part("kinds").textContent = text;
  part("formats").textContent = `${served.join(", ")}.`;
  part("formats-more").hidden = false;
}

function remember() {
  const known = [...jobs].filter((job) => job.known).map(({ known: { id, name } }) => ({ id, name }));
  writeSession("documents", known.length ? known : null);
}

function add(files) {
  for (const file of files) {
    const job = new Job(file);
    jobs.add(job);
    job.start();
  }
}

/** Follows the documents that were sent before the page was loaded again. */
export function resumeDocuments() {
  showFormats();
  for (const known of readSession("documents", [])) {
    const job = new Job(null, known);
    jobs.add(job);
    job.follow();
  }
}

export function startDocuments() {
  passage.addEventListener("change", showFormats);
  part("file").addEventListener("change", ({ target: input }) => {
    add(input.files);
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
    add(event.dataTransfer.files);
  });
}
