// Says to users of screen readers, after a pause, that the translation has arrived, and what happened to it.

import { announce, part } from "./dom.js";
import { passage } from "./passage.js";

const PAUSE_MS = 900;

let timer = 0;
let said = { translation: "", troubles: "" };

export function startAnnouncements() {
  passage.addEventListener("change", () => {
    clearTimeout(timer);
    timer = setTimeout(say, PAUSE_MS);
  });
}

function say() {
  if (!passage.isCurrent || passage.segments.some((each) => !each.isDetailed)) return;
  const { translation } = passage;
  const isTyped = document.activeElement === part("output"); // its suggestions are announced as they come
  const rows = [...part("terms").rows].filter((row) => row.querySelector(".missed, .check"));
  const terms = rows.map(({ cells }) => `Term ${cells[0].textContent}: ${cells[2].textContent}.`);
  const troubles = [...part("notices").querySelectorAll(":not(.plainly)")].map((each) => each.textContent);
  const now = { translation, troubles: [...troubles, ...terms].join(" ") };
  const hasArrived = translation && translation !== said.translation && !isTyped;
  const confidence = part("confidence-figure").hidden ? "" : ` ${part("confidence-figure").textContent}.`;
  const message = [
    hasArrived ? `Translated.${confidence}` : "",
    now.troubles === said.troubles && !hasArrived ? "" : now.troubles,
  ];
  said = now;
  if (message.some(Boolean)) announce(message.filter(Boolean).join(" "));
}
