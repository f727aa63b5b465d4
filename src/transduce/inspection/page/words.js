// The two columns of words and the lines between them.

function fillColumn(side) {
  const list = element(side);
  list.replaceChildren(
    ...state.view[side].map((label, index) => {
      const item = make("li", { textContent: label, title: label, tabIndex: index ? -1 : 0, dir: "auto" });
      item.setAttribute("role", "option");
      item.addEventListener("pointerenter", () => hover({ side, index }));
      item.addEventListener("focus", () => hover({ side, index }));
      item.addEventListener("blur", () => hover(null));
      item.addEventListener("click", () => pin(side, index));
      item.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        pin(side, index);
      });
      return item;
    }),
  );
}

/** Returns the mean weight over the drawn heads between a word and each word of the other side. */
function sharesOf(word) {
  const { view, layer, heads } = state;
  const others = word.side === "queries" ? view.keys : view.queries;
  return others.map((_, other) => {
    let sum = 0;
    for (const head of heads) {
      sum += word.side === "queries" ? weightOf(view, layer, head, word.index, other) : weightOf(view, layer, head, other, word.index);
    }
    return heads.size ? sum / heads.size / 255 : 0;
  });
}

function markWords() {
  const word = state.hovered ?? state.pinned;
  const shares = word ? sharesOf(word) : [];
  for (const side of ["queries", "keys"]) {
    [...element(side).children].forEach((item, index) => {
      const chosen = word?.side === side && word.index === index;
      const share = word && word.side !== side ? shares[index] : 0;
      item.setAttribute("aria-selected", chosen);
      item.classList.toggle("away", Boolean(word) && !chosen && share < 0.01);
      if (share >= 0.01) item.dataset.share = percent(share);
      else delete item.dataset.share;
    });
  }
  element("reading").textContent = word ? reading(word, shares) : "";
}

/** Says in words what a word attends to, or what attends to it. */
function reading(word, shares) {
  const others = state.view[word.side === "queries" ? "keys" : "queries"];
  const greatest = shares
    .map((share, index) => ({ share, label: others[index] }))
    .filter(({ share }) => share >= 0.01)
    .sort((a, b) => b.share - a.share)
    .slice(0, 5)
    .map(({ share, label }) => `“${label}” ${percent(share)}`);
  const verb = word.side === "queries" ? "attends to" : "is attended to by";
  const mean = state.heads.size > 1 ? ` (mean of ${state.heads.size} heads)` : "";
  return `“${state.view[word.side][word.index]}” ${verb} ${greatest.join(", ") || "nothing much"}${mean}`;
}

function drawLines() {
  const { view, layer } = state;
  const canvas = element("lines");
  const row = parseFloat(getComputedStyle(document.documentElement).getPropertyValue("--row"));
  const width = canvas.clientWidth;
  const context = contextOf(canvas, width, row * Math.max(view.queries.length, view.keys.length));
  const word = state.hovered ?? state.pinned;
  const heads = [...state.heads].sort((a, b) => a - b);
  const edge = word ? SQUARE * heads.length + 3 : 0;
  const left = word?.side === "keys" ? edge : 0;
  const right = width - (word?.side === "queries" ? edge : 0);
  heads.forEach((head, place) => {
    const shift = word ? ((place - (heads.length - 1) / 2) / heads.length) * HEADS_APART * row : 0;
    context.strokeStyle = context.fillStyle = data.colours[head];
    for (let query = 0; query < view.queries.length; query++) {
      if (word?.side === "queries" && word.index !== query) continue;
      for (let key = 0; key < view.keys.length; key++) {
        if (word?.side === "keys" && word.index !== key) continue;
        const weight = weightOf(view, layer, head, query, key);
        if (weight < FAINTEST) continue;
        context.globalAlpha = Math.sqrt(weight / 255); // a small weight can still be seen
        context.lineWidth = THINNEST + ((THICKEST - THINNEST) * weight) / 255;
        context.beginPath();
        context.moveTo(left, (query + 0.5) * row + (word?.side === "keys" ? shift : 0));
        context.lineTo(right, (key + 0.5) * row + (word?.side === "queries" ? shift : 0));
        context.stroke();
        if (word?.side === "queries") context.fillRect(right + 3 + place * SQUARE, key * row + 1, SQUARE - 1, row - 2);
        if (word?.side === "keys") context.fillRect(place * SQUARE, query * row + 1, SQUARE - 1, row - 2);
      }
    }
  });
}
