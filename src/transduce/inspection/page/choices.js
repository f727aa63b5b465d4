// What people do, and what is then shown anew: all that hangs on the attention, on layer and heads, on a word.

function chooseUnit(unit) {
  state.unit = unit;
  for (const node of document.querySelectorAll(".unit")) node.textContent = unit.unit;
  chooseKind(state.view.kind);
}

function chooseKind(kind) {
  const view = state.unit.views.find((one) => one.kind === kind);
  state.view = view;
  state.layer = Math.min(state.layer, view.layers - 1);
  state.pinned = state.hovered = state.cell = null;
  if (!(state.sort.column in view.statistics)) state.sort = { column: "head", descending: false };
  showView();
}

function chooseLayer(layer) {
  state.layer = Math.max(0, Math.min(layer, state.view.layers - 1));
  showChoice();
}

function chooseHead(layer, head) {
  state.layer = layer;
  state.head = head;
  state.heads = new Set([head]);
  showChoice();
}

function toggleHead(head) {
  if (!state.heads.delete(head)) {
    state.heads.add(head);
    state.head = head;
  } else if (!state.heads.has(state.head)) {
    // The matrix shows a head that is drawn: of those left, the one chosen last.
    state.head = [...state.heads].at(-1) ?? head;
  }
  showChoice();
}

function moveHead(step) {
  const count = state.view.heads;
  const from = state.heads.size === 1 ? state.head : step > 0 ? -1 : count;
  chooseHead(state.layer, (from + step + count) % count);
}

function pin(side, index) {
  const same = state.pinned?.side === side && state.pinned.index === index;
  state.pinned = same ? null : { side, index };
  showWord();
}

function hover(word) {
  state.hovered = word;
  showWord();
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const arrow = event.key.startsWith("Arrow");
  // Radio buttons move with the arrows by themselves, and so does what scrolls.
  if (arrow && (event.target.type === "radio" || event.target.closest(".scroll"))) return;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const kind = { e: "encoder", d: "decoder", c: "cross" }[key];
  if (kind) chooseKind(kind);
  else if (key === "w") chooseUnit(data.units[(data.units.indexOf(state.unit) + 1) % data.units.length]);
  else if (key === "ArrowUp") chooseLayer(state.layer - 1);
  else if (key === "ArrowDown") chooseLayer(state.layer + 1);
  else if (key === "ArrowLeft") moveHead(-1);
  else if (key === "ArrowRight") moveHead(1);
  else if (key >= "1" && key <= "9" && Number(key) <= state.view.heads) toggleHead(Number(key) - 1);
  else if (key === "a") {
    state.heads = new Set(allHeads(state.view));
    showChoice();
  } else if (key === "Escape" && (state.pinned || state.hovered)) {
    state.pinned = state.hovered = null;
    showWord();
  } else return;
  event.preventDefault();
}

function showView() {
  const { view } = state;
  const rows = Math.max(view.queries.length, view.keys.length);
  const room = Math.floor((window.innerHeight - 300) / rows);
  document.documentElement.style.setProperty("--row", `${Math.max(15, Math.min(28, room))}px`);
  for (const side of ["queries", "keys"]) fillColumn(side);
  element("lines-note").textContent = `${NOTES[view.kind]} Point at a ${state.unit.unit}, or choose it, to see its lines alone.`;
  element("statistics-title").textContent = `Statistics of the heads: ${NAMES[view.kind].toLowerCase()}`;
  element("own").textContent =
    view.kind === "decoder" ? "; its own position is the target word before it"
    : view.kind === "cross" ? "; its own position is on the straight line from the first pair to the last" : "";
  fillControls();
  fillGrid();
  fillStatistics();
  showChoice();
}

function showChoice() {
  const { view, layer, heads, head } = state;
  const names = [...heads].sort((a, b) => a - b).map((one) => one + 1);
  const all = names.length === view.heads;
  const title = all ? "all heads" : names.length === 1 ? `head ${names[0]}` : names.length ? `heads ${names.join(", ")}` : "no head";
  element("lines-title").textContent = `${NAMES[view.kind]}, layer ${layer + 1} of ${view.layers}, ${title}`;
  for (const input of element("controls").querySelectorAll("input")) {
    if (input.name === "kind") input.checked = input.value === view.kind;
    if (input.name === "unit") input.checked = input.value === state.unit.unit;
    if (input.name === "layer") input.checked = Number(input.value) === layer;
    if (input.name === "head") input.checked = heads.has(Number(input.value));
  }
  for (const cell of element("grid").querySelectorAll(".cell")) {
    const here = Number(cell.dataset.layer) === layer && heads.has(Number(cell.dataset.head));
    cell.setAttribute("aria-selected", here);
  }
  for (const row of element("statistics").tBodies[0].rows) {
    row.setAttribute("aria-current", Number(row.dataset.layer) === layer && heads.has(Number(row.dataset.head)));
  }
  element("matrix-title").textContent = `Layer ${layer + 1}, head ${head + 1}`;
  showWord();
}

let scheduled = false;

/** Redraws what hangs on a word, once a frame however fast the pointer moves. */
function showWord() {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(() => {
    scheduled = false;
    markWords();
    drawLines();
    drawMatrix();
  });
}
