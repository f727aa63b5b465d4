// The data of the page, what is chosen of it, and small tools. Layers and heads are array indices here, from 0.

const FAINTEST = 5; // of 255, 2 %: fainter lines are not drawn
const SQUARE = 7; // pixels: width of a head's square next to a word
const HEADS_APART = 0.7; // share of a row over which the lines of several heads end, as in pictures
const THINNEST = 0.6; // pixels: width of a line of weight 0
const THICKEST = 3.6; // and of weight 1
const NAMES = { encoder: "Encoder", decoder: "Decoder", cross: "Decoder to encoder" };
const NOTES = {
  encoder: "Source words on the left attend to source words on the right.",
  decoder: "Target words on the left attend to earlier target words on the right, never to later ones.",
  cross: "Target words on the left attend to source words on the right.",
};

const data = JSON.parse(element("data").textContent);
for (const view of data.units.flatMap((unit) => unit.views)) {
  const characters = atob(view.weights);
  view.bytes = new Uint8Array(characters.length); // filled by a loop: `Uint8Array.from` takes ten times as long
  for (let at = 0; at < characters.length; at++) view.bytes[at] = characters.charCodeAt(at);
}

// The page opens on the head of the decoder that aligns source and target best.
const [best] = data.alignment.best.map(([layer, head]) => ({ layer: layer - 1, head: head - 1 }));

const state = {
  unit: data.units[0], // words, or subword pieces
  view: data.units[0].views.find((view) => view.kind === "cross"),
  layer: best.layer,
  heads: new Set([best.head]), // those drawn as lines
  head: best.head, // the one chosen last: it is shown as a matrix
  pinned: null, // a word that was chosen, {side: "queries" or "keys", index}
  hovered: null, // one under the pointer or the focus
  cell: null, // the matrix's cell under the pointer, {query, key}
  sort: { column: "head", descending: false },
};

function element(id) {
  return document.getElementById(id);
}

function make(tag, properties = {}, ...children) {
  const node = Object.assign(document.createElement(tag), properties);
  node.append(...children);
  return node;
}

function allHeads(view) {
  return Array.from({ length: view.heads }, (_, head) => head);
}

function weightOf(view, layer, head, query, key) {
  const { heads, queries, keys } = view;
  return view.bytes[((layer * heads + head) * queries.length + query) * keys.length + key];
}

function percent(share, digits = 0) {
  return `${(100 * share).toFixed(digits)} %`;
}

/** Sizes a canvas for the screen's pixels and returns a context that counts in CSS pixels. */
function contextOf(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  return context;
}

/** Makes arrow keys move the focus among `items()`, in rows of `columns()`; Tab reaches one of them. */
function rove(container, items, columns) {
  container.addEventListener("keydown", (event) => {
    const nodes = items();
    const at = nodes.indexOf(document.activeElement);
    const wide = columns() > 1;
    const moves = { ArrowDown: columns(), ArrowUp: -columns(), ArrowRight: wide ? 1 : 0, ArrowLeft: wide ? -1 : 0 };
    let to = at + (moves[event.key] ?? 0);
    if (event.key === "Home") to = 0;
    if (event.key === "End") to = nodes.length - 1;
    if (at < 0 || (to === at && !["Home", "End"].includes(event.key))) return;
    event.preventDefault();
    event.stopPropagation();
    if (!nodes[to]) return;
    nodes[at].tabIndex = -1;
    nodes[to].tabIndex = 0;
    nodes[to].focus();
  });
}
