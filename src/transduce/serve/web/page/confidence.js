// How sure the model is: a figure for the translation, with what it means, and the shading of words.

import { disclosure, part, percent } from "./dom.js";
import { passage } from "./passage.js";
import { readLasting, writeLasting } from "./storage.js";

const MEANING = {
  true: "Calibrated: the figure was fitted to data. Of translations with this figure, about this share was good there.",
  false:
    "A rough estimate, which is not calibrated: this is the mean probability that the model gave its own words. It can rank translations, but it is " +
    "not the probability that one is good.",
};

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

function show() {
  const known = passage.segments.filter((each) => each.source.trim() && each.text);
  const isKnown = known.length > 0 && passage.isCurrent && known.every((each) => each.translation.confidence !== null);
  part("confidence").hidden = !isKnown;
  if (!isKnown) {
    part("confidence-note").hidden = true;
    part("confidence-figure").setAttribute("aria-expanded", "false");
    return;
  }
  const length = known.reduce((sum, each) => sum + each.source.length, 0);
  const mean = known.reduce((sum, each) => sum + each.source.length * each.translation.confidence, 0) / length;
  const isCalibrated = known.every((each) => each.translation.calibrated);
  part("confidence-figure").textContent = `Confidence ${percent(mean)}, ${isCalibrated ? "calibrated" : "a rough estimate"}`;
  const several = known.length > 1 ? " It is the mean over the sentences, by their length." : "";
  part("confidence-note").textContent = MEANING[isCalibrated] + several;
}
