// The two languages: what can be chosen, what was detected, and which way they are written.

import { make, part } from "./dom.js";
import { ask } from "./requests.js";
import { readLasting, writeLasting } from "./storage.js";

const RIGHT_TO_LEFT = new Set(["ar", "ckb", "dv", "fa", "he", "ku", "ps", "sd", "ug", "ur", "yi"]);

let pairs = [];
let names = new Map();
let documentFormats = [];
let mostCharacters = Infinity;
let detected = null; // {language, confidence} of the text, where the source is to be detected; confidence null: assumed
let chosen = []; // the two codes

export const formats = () => documentFormats; // the titles of those that the service can translate
export const textLimit = () => mostCharacters; // that the service accepts
export const nameOf = (code) => names.get(code) ?? code;
export const directionOf = (code) => (RIGHT_TO_LEFT.has(code.split("-")[0]) ? "rtl" : "ltr");
export const target = () => part("target").value;
export const chosenSource = () => part("source").value; // or "auto"
export const detectedGuess = () => detected;
export const isDetected = () => detected !== null && detected.confidence !== null;
export const source = () => (chosenSource() === "auto" ? detected?.language ?? "" : chosenSource());

/** Returns the language in between, where there is one. */
export const pivot = () => pairs.find((pair) => pair.source === source() && pair.target === target())?.via ?? "";

/** Returns whether the engine of this pair returns its attention; it is not known while the model is not loaded. */
export const attends = () => {
  const chosen = pairs.filter((pair) => pair.target === target() && [pair.source, ""].includes(source()));
  return chosen.some((pair) => pair.attention !== false);
};

function sorted(codes) {
  return [...new Set(codes)].sort((a, b) => nameOf(a).localeCompare(nameOf(b)));
}

/** Returns the pairs of a group: any two of its languages. */
const pairsOf = (group) =>
  group.languages.flatMap((source) =>
    group.languages.filter((code) => code !== source).map((target) => ({ ...group, source, target })),
  );

const option = (code) => make("option", { value: code, textContent: nameOf(code) });

/** Fills the list of targets with what the source can be translated into. */
function fillTargets() {
  const chosen = target();
  const code = chosenSource();
  const reached = sorted(pairs.filter((pair) => code === "auto" || pair.source === code).map((pair) => pair.target));
  part("target").replaceChildren(...reached.map(option));
  if (reached.includes(chosen)) part("target").value = chosen;
}

/** Asks the service what it can translate, and fills both lists. */
export async function loadLanguages() {
  const served = await ask("api/languages");
  pairs = [...served.pairs, ...served.groups.flatMap(pairsOf)];
  documentFormats = served.document_formats;
  mostCharacters = served.text_characters;
  names = new Map(served.languages.map(({ code, name }) => [code, name]));
  const sources = sorted(pairs.map((pair) => pair.source));
  part("source").append(...sources.map(option));
  if (sources.length === 1) part("source").value = sources[0];
  const [lastSource, lastTarget] = readLasting("languages", []);
  choose(lastSource, lastTarget);
}

/** Chooses languages, as far as they are served. */
export function choose(sourceCode, targetCode) {
  const has = (list, code) => [...part(list).options].some((each) => each.value === code);
  if (has("source", sourceCode)) part("source").value = sourceCode;
  fillTargets();
  if (has("target", targetCode)) part("target").value = targetCode;
  show();
}

/** Lets the service detect the language, as if the user had chosen that. */
export function chooseDetection() {
  part("source").value = "auto";
  part("source").dispatchEvent(new Event("change"));
}

/** Remembers what the service detected; null where the source was named. */
export function setDetected(found) {
  detected = found;
  show();
}

/** Exchanges the languages; the button is disabled where there is no model for the way back. */
export function swap() {
  const [from, to] = [source(), target()];
  detected = null;
  choose(to, from);
  remember();
}

function remember() {
  writeLasting("languages", [chosenSource(), target()]);
}

function show() {
  chosen = [chosenSource(), target()];
  const isShown = chosenSource() === "auto" && isDetected() && part("text").value.trim();
  part("detected").textContent = isShown ? described(detected) : "";
  setLanguage("text", source());
  setLanguage("output", target());
  const isPair = pairs.some((pair) => pair.source === target() && pair.target === source());
  const why = source() ? "There is no model for the way back" : "The language of the text is not known yet";
  part("swap").disabled = !isPair;
  part("swap").title = isPair ? "Swap languages" : why;
}

/** Says what was detected; a confidence of 0 means that no language could be. */
function described({ language, confidence }) {
  const name = nameOf(language);
  return confidence ? `Detected: ${name} (${Math.round(confidence)} % sure)` : `Language not recognised: read as ${name}`;
}

/** Sets the language of a field and its mirror. Their direction is that of the text. */
function setLanguage(id, code) {
  for (const node of [part(id), part(`${id}-mirror`)]) node.lang = code;
}

/** Calls back with the languages before when the user chooses others. */
export function onLanguageChoice(callback) {
  for (const id of ["source", "target"]) {
    part(id).addEventListener("change", () => {
      const before = chosen;
      if (id === "source") {
        const language = part("text").value.trim() && (before[0] === "auto" ? detected?.language : before[0]);
        detected = language ? { language, confidence: null } : null; // until the service has seen the text
        fillTargets();
      }
      remember();
      show();
      callback(before);
    });
  }
}
