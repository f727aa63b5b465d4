// How sure the model is: a figure for the translation, with what it means, and the shading of words.

import { disclosure, part, percent } from "./dom.js";
import { passage } from "./passage.js";
import { isPresent } from "./segments.js";
import { readLasting, writeLasting } from "./storage.js";

const MEANING = {
  true:
    "The figure was compared with translations whose quality is known: of those with this figure, about this share was " +
    "good.",
  false:
    "The model gives each part of a word that it writes a chance of being right. It is sure where these are 80 % on average, " +
    "and fairly sure from 50 %. This is a rough estimate: it was not compared with translations whose quality is known.",
};
const WORDS = [[0.8, "sure"], [0.5, "fairly sure"], [0, "unsure"]]; // for a mean probability that was not calibrated

export function startConfidence() {
  const shading = part("shading");
  shading.checked = readLasting("shading", true);
  const shade = () => part("output-mirror").classList.toggle("shaded", shading.checked);
  shading.addEventListener("change", () => {
    writeLasting("shading", shading.checked);
    shade();
  });
  shade();
  const set = disclosure(part("confidence-figure"), part("confidence-note"));
  document.addEventListener("keydown", ({ key }) => {
    if (key === "Escape") set(false);
  });
  passage.addEventListener("change", show);
}

/** Shows the confidence in what the model wrote by itself: a sentence that the user worked on does not count. */
function show() {
  const filled = passage.segments.filter((each) => each.source.trim() && each.text);
  const counted = filled.filter((each) => !each.isEdited);
  const isKnown = (each) => each.isDetailed && isPresent(each) && each.translation.confidence !== null;
  const isShown = counted.length > 0 && passage.isCurrent && counted.every(isKnown);
  part("confidence-figure").hidden = !isShown;
  if (!isShown) {
    part("confidence-note").hidden = true;
    part("confidence-figure").setAttribute("aria-expanded", "false");
    return;
  }
  const length = counted.reduce((sum, each) => sum + each.source.length, 0);
  const mean = counted.reduce((sum, each) => sum + each.source.length * each.translation.confidence, 0) / length;
  const isCalibrated = counted.every((each) => each.translation.calibrated);
  const inWords = `The model is ${WORDS.find(([least]) => mean >= least)[1]}`;
  part("confidence-figure").textContent = isCalibrated ? `Confidence ${percent(mean)}, checked on data` : inWords;
  const several = counted.length > 1 ? " It is the mean over the sentences, by their length." : "";
  const edited = counted.length < filled.length ? " Sentences that you edited do not count." : "";
  part("confidence-note").textContent = MEANING[isCalibrated] + several + edited;
}
