// Heads as matrices: all of them small, one of them large.

/** Returns a canvas of one pixel a weight. */
function pixels(view, layer, head) {
  const canvas = make("canvas", { width: view.keys.length, height: view.queries.length });
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  const size = canvas.width * canvas.height;
  const start = (layer * view.heads + head) * size;
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(data.colours[head].slice(at, at + 2), 16));
  const colour = (blue << 16) | (green << 8) | red; // little-endian, as all machines with a browser are
  const values = new Uint32Array(image.data.buffer);
  for (let at = 0; at < size; at++) values[at] = (view.bytes[start + at] << 24) | colour;
  context.putImageData(image, 0, 0);
  return canvas;
}

function fillGrid() {
  const { view } = state;
  const grid = element("grid");
  grid.style.gridTemplateColumns = `auto repeat(${view.heads}, minmax(0, ${view.heads > 8 ? 64 : 88}px))`;
  const label = (role, text) => {
    const node = make("div", { className: "label", textContent: text });
    node.setAttribute("role", role);
    return node;
  };
  const row = (...cells) => {
    const node = make("div", {}, ...cells);
    node.setAttribute("role", "row");
    return node;
  };
  const rows = [row(label("columnheader", ""), ...allHeads(view).map((head) => label("columnheader", `head ${head + 1}`)))];
  for (let layer = 0; layer < view.layers; layer++) {
    rows.push(row(label("rowheader", `layer ${layer + 1}`), ...allHeads(view).map((head) => gridCell(view, layer, head))));
  }
  grid.replaceChildren(...rows);
}

function gridCell(view, layer, head) {
  const picture = pixels(view, layer, head);
  // Sharp cells where each has two pixels of the screen or more; below that, sharpness would drop some.
  picture.style.imageRendering = Math.max(picture.width, picture.height) > 32 ? "auto" : "pixelated";
  const cell = make("div", { className: "cell", tabIndex: layer || head ? -1 : 0 }, picture);
  cell.setAttribute("role", "gridcell");
  Object.assign(cell.dataset, { layer, head });
  cell.style.setProperty("--head", data.colours[head]);
  const { distance, entropy, diagonal } = view.statistics;
  cell.title = `layer ${layer + 1}, head ${head + 1}: distance ${distance[layer][head].toFixed(1)}, entropy ` +
    `${entropy[layer][head].toFixed(1)} bits, diagonal ${percent(diagonal[layer][head])}`;
  cell.setAttribute("aria-label", cell.title);
  cell.addEventListener("click", () => chooseHead(layer, head));
  cell.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    chooseHead(layer, head);
  });
  return cell;
}

/** Where the matrix's cells lie, in pixels: it is as wide as its card, after labels where they can be read. */
const matrix = { width: 1, height: 1, left: 0, top: 0 };
const LABEL = 13; // pixels of a label's letters, where cells have room for them

/** Sets the sizes for the room that there is, and returns the pixels of a label's letters; 0: no labels. */
function layOut(room) {
  const { view } = state;
  const context = make("canvas").getContext("2d");
  const columns = view.keys.length;
  let letters = LABEL;
  const widest = (labels) => {
    context.font = `${letters}px system-ui, sans-serif`;
    return Math.max(...labels.map((label) => context.measureText(label).width)) + 8;
  };
  matrix.left = Math.min(widest(view.queries), room / 3);
  matrix.width = (room - matrix.left) / columns;
  if (matrix.width < 9) {
    Object.assign(matrix, { left: 0, top: 0, width: room / columns, height: Math.max(2, room / columns) });
    return 0;
  }
  matrix.height = Math.min(matrix.width, 36);
  letters = Math.min(LABEL, Math.floor(matrix.height * 0.8));
  matrix.upright = widest(view.keys) <= matrix.width;
  matrix.top = matrix.upright ? letters + 10 : Math.min(widest(view.keys), 160);
  return letters;
}

function drawMatrix() {
  const { view, layer, head, cell } = state;
  const canvas = element("matrix");
  if (!canvas.offsetParent) return; // it is not shown
  const room = canvas.parentElement.clientWidth - 32;
  const letters = layOut(room);
  const [columns, rows] = [view.keys.length, view.queries.length];
  canvas.style.width = `${room}px`;
  const context = contextOf(canvas, room, matrix.top + matrix.height * rows + 1);
  const style = getComputedStyle(document.documentElement);
  context.imageSmoothingEnabled = false;
  const inside = [matrix.left, matrix.top, matrix.width * columns, matrix.height * rows];
  context.drawImage(pixels(view, layer, head), ...inside);
  context.strokeStyle = style.getPropertyValue("--line");
  context.strokeRect(...inside);
  if (letters) drawLabels(context, letters, style.getPropertyValue("--ink"));
  if (cell) {
    const corner = [matrix.left + cell.key * matrix.width, matrix.top + cell.query * matrix.height];
    context.strokeStyle = style.getPropertyValue("--ink");
    context.strokeRect(...corner, matrix.width, matrix.height);
  }
  canvas.setAttribute("aria-label", `Weights of layer ${layer + 1}, head ${head + 1}: ${rows} queries, ` +
    `${columns} keys. The statistics below and the words above say the same.`);
}

function drawLabels(context, letters, ink) {
  const { view } = state;
  context.fillStyle = ink;
  context.font = `${letters}px system-ui, sans-serif`;
  context.textBaseline = "middle";
  context.textAlign = "right";
  view.queries.forEach((label, row) => context.fillText(label, matrix.left - 4, matrix.top + (row + 0.5) * matrix.height, matrix.left - 4));
  context.textAlign = matrix.upright ? "center" : "left";
  view.keys.forEach((label, column) => {
    context.save();
    context.translate(matrix.left + (column + 0.5) * matrix.width, matrix.top - (matrix.upright ? letters / 2 + 4 : 4));
    if (!matrix.upright) context.rotate(-Math.PI / 2);
    context.fillText(label, 0, 0, matrix.upright ? matrix.width - 4 : matrix.top - 4);
    context.restore();
  });
}

function pointAtCell(event) {
  const { view, layer, head } = state;
  const box = element("matrix").getBoundingClientRect();
  const key = Math.floor((event.clientX - box.left - matrix.left) / matrix.width);
  const query = Math.floor((event.clientY - box.top - matrix.top) / matrix.height);
  const inside = key >= 0 && query >= 0 && key < view.keys.length && query < view.queries.length;
  state.cell = inside ? { query, key } : null;
  state.hovered = inside ? { side: "queries", index: query } : null;
  element("cell").textContent = inside
    ? `“${view.queries[query]}” attends to “${view.keys[key]}”: ${percent(weightOf(view, layer, head, query, key) / 255, 1)}`
    : "Point at a cell for its weight.";
  showWord();
}
