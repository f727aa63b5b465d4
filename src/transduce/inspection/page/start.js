// Puts everything in its place, once.

element("source").textContent = data.source;
element("target").textContent = data.target;
element("controls").addEventListener("submit", (event) => event.preventDefault());
for (const side of ["queries", "keys"]) {
  element(side).addEventListener("pointerleave", () => hover(null));
  rove(element(side), () => [...element(side).children], () => 1);
}
rove(element("grid"), () => [...element("grid").querySelectorAll(".cell")], () => state.view.heads);
rove(element("statistics"), () => [...element("statistics").querySelectorAll("tbody button")], () => 1);
element("matrix").addEventListener("pointermove", pointAtCell);
element("matrix").addEventListener("pointerleave", pointAtCell);
document.addEventListener("keydown", onKey);
element("more").addEventListener("toggle", showWord);
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", showWord);
window.addEventListener("resize", showWord);
fillAlignment();
chooseUnit(data.units[0]);
document.documentElement.dataset.ready = Math.round(performance.now()); // milliseconds, for whoever waits or measures
