// The columns of a table in CSV: which are translated, and whether the first line has their names.

import { make } from "./dom.js";

const HEAD_BYTES = 1 << 16; // in which the first lines are
const HEAD_LINES = 10; // by which the delimiter is known
const DELIMITERS = [",", ";", "\t", "|"];

/** Returns a form that asks for columns; `chosen` is called with them, as the service reads them. */
export async function chooseColumns(file, chosen) {
  const cells = firstLine(await headOf(file));
  const boxes = cells.map((cell, index) => tick(cell || `Column ${index + 1}`));
  const hasNames = tick("The first line has the names of the columns, and stays");
  hasNames.box.checked = cells.length > 1 && new Set(cells).size === cells.length && !cells.some((cell) => /\d/.test(cell));
  const button = make("button", { type: "submit", textContent: "Translate" });
  const form = make("form", { className: "columns" });
  const group = make("div", { role: "group" }, ...boxes.map((each) => each.label));
  group.setAttribute("aria-label", `Columns of ${file.name}`);
  form.append(group, hasNames.label, button);
  form.addEventListener("change", () => {
    button.disabled = !boxes.some((each) => each.box.checked);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const numbers = boxes.flatMap((each, index) => (each.box.checked ? [index + 1] : []));
    chosen([...(hasNames.box.checked ? [] : ["*"]), ...numbers].join());
  });
  return form;
}

function tick(text) {
  const box = make("input", { type: "checkbox", checked: true });
  return { box, label: make("label", { className: "switch", dir: "auto" }, box, ` ${text}`) };
}

/** Returns the beginning of a file of text. */
async function headOf(file) {
  const bytes = new Uint8Array(await file.slice(0, HEAD_BYTES).arrayBuffer());
  const utf16 = { 0xfffe: "utf-16le", 0xfeff: "utf-16be" }[256 * bytes[0] + bytes[1]];
  return new TextDecoder(utf16 ?? "utf-8").decode(bytes);
}

/** Returns the cells of the first line. */
function firstLine(text) {
  const sign = delimiterOf(text);
  const cells = [];
  for (const [, quoted, plain, end] of text.matchAll(cellPattern(sign))) {
    cells.push((quoted === undefined ? plain : quoted.replaceAll('""', '"')).trim());
    if (end !== sign) break;
  }
  return cells;
}

const cellPattern = (sign) => {
  const escaped = sign === "|" ? "\\|" : sign;
  return new RegExp(`(?:"((?:[^"]|"")*)"|([^${escaped}\r\n]*))(${escaped}|\r?\n|\r|$)`, "gy");
};

/** Returns the sign that the first lines have equally often, or else the first line most often. */
function delimiterOf(text) {
  const lines = text.replace(/"(?:[^"]|"")*"/g, "").trim().split(/\r\n|\r|\n/).slice(0, HEAD_LINES);
  const counts = (sign) => lines.filter(Boolean).map((line) => line.split(sign).length - 1);
  const isEqual = (sign) => counts(sign)[0] > 0 && new Set(counts(sign)).size === 1;
  const key = (sign) => 1e6 * isEqual(sign) + lines[0].split(sign).length;
  return DELIMITERS.reduce((best, sign) => (key(sign) > key(best) ? sign : best));
}
