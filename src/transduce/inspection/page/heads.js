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

/** Where the matrix's cells lie: `size` pixels each, after labels where they can be read. */
const matrix = { size: 1, left: 0, top: 0 };

function drawMatrix() {
  const { view, layer, head, cell } = state;
  const canvas = element("matrix");
  const room = Math.min(canvas.parentElement.clientWidth - 32, 640);
  const longest = Math.max(...view.queries.map((label) => label.length), ...view.keys.map((label) => label.length));
  const columns = view.keys.length;
  // A label takes about 0.45 of a cell's side for each character.
  matrix.size = Math.min(26, Math.floor(room / (columns + 0.45 * longest + 1)));
  const labelled = matrix.size >= 9;
  if (!labelled) matrix.size = Math.max(2, Math.floor(room / columns));
  matrix.left = matrix.top = labelled ? Math.ceil((0.45 * longest + 0.6) * matrix.size) : 0;
  const width = matrix.left + matrix.size * columns;
  canvas.style.width = `${width}px`;
  const context = contextOf(canvas, width, matrix.top + matrix.size * view.queries.length);
  const style = getComputedStyle(document.documentElement);
  context.imageSmoothingEnabled = false;
  const inside = [matrix.left, matrix.top, matrix.size * columns, matrix.size * view.queries.length];
  context.drawImage(pixels(view, layer, head), ...inside);
  context.strokeStyle = style.getPropertyValue("--line");
  context.strokeRect(...inside);
  if (labelled) drawLabels(context, style.getPropertyValue("--ink"));
  if (cell) {
    context.strokeStyle = style.getPropertyValue("--ink");
    context.strokeRect(matrix.left + cell.key * matrix.size, matrix.top + cell.query * matrix.size, matrix.size, matrix.size);
  }
  canvas.setAttribute("aria-label", `Weights of layer ${layer + 1}, head ${head + 1}: ${view.queries.length} rows that look, ` +
    `${columns} columns that are looked at. The statistics below and the words above say the same.`);
}

function drawLabels(context, ink) {
  const { view } = state;
  context.fillStyle = ink;
  context.font = `${Math.round(matrix.size * 0.72)}px system-ui, sans-serif`;
  context.textBaseline = "middle";
  context.textAlign = "right";
  view.queries.forEach((label, row) => context.fillText(label, matrix.left - 4, matrix.top + (row + 0.5) * matrix.size, matrix.left - 4));
  context.textAlign = "left";
  view.keys.forEach((label, column) => {
    context.save();
    context.translate(matrix.left + (column + 0.5) * matrix.size, matrix.top - 4);
    context.rotate(-Math.PI / 2);
    context.fillText(label, 0, 0, matrix.top - 4);
    context.restore();
  });
}

function pointAtCell(event) {
  const { view, layer, head } = state;
  const box = element("matrix").getBoundingClientRect();
  const key = Math.floor((event.clientX - box.left - matrix.left) / matrix.size);
  const query = Math.floor((event.clientY - box.top - matrix.top) / matrix.size);
  const inside = key >= 0 && query >= 0 && key < view.keys.length && query < view.queries.length;
  state.cell = inside ? { query, key } : null;
  state.hovered = inside ? { side: "queries", index: query } : null;
  element("cell").textContent = inside
    ? `“${view.queries[query]}” looks at “${view.keys[key]}”: ${percent(weightOf(view, layer, head, query, key) / 255, 1)}`
    : "Point at a cell for its weight.";
  showWord();
}
