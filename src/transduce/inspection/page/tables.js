// The controls, the statistics, and the heads that align.

function choice(type, name, value, text, onChange) {
  const input = make("input", { type, name, value });
  input.addEventListener("change", onChange);
  return make("label", { className: "choice" }, input, make("span", { textContent: text }));
}

function fillControls() {
  const { view } = state;
  const fill = (id, choices) => {
    // A control that has the focus is kept: its group is made anew only where it differs.
    const fieldset = element(id);
    if (fieldset.querySelectorAll("input").length === choices.length) return;
    fieldset.replaceChildren(fieldset.querySelector("legend"), ...choices);
  };
  const kinds = Object.keys(NAMES);
  fill("kinds", kinds.map((kind) => choice("radio", "kind", kind, NAMES[kind].toLowerCase(), () => chooseKind(kind))));
  fill("units", data.units.map((one) => choice("radio", "unit", one.unit, `${one.unit}s`, () => chooseUnit(one))));
  element("units").hidden = data.units.length === 1;
  const layers = Array.from({ length: view.layers }, (_, layer) => layer);
  fill("layers", layers.map((layer) => choice("radio", "layer", layer, layer + 1, () => chooseLayer(layer))));
  fill("heads", allHeads(view).map((head) => {
    const node = choice("checkbox", "head", head, head + 1, () => toggleHead(head));
    node.style.setProperty("--head", data.colours[head]);
    return node;
  }));
}

function headButton(layer, head, text) {
  const button = make("button", { type: "button", textContent: text });
  button.style.setProperty("--head", data.colours[head]);
  return button;
}

function fillStatistics() {
  const { view, sort } = state;
  const columns = Object.keys(view.statistics);
  const headings = ["head", ...columns].map((column) => {
    const button = make("button", { type: "button", textContent: column });
    button.addEventListener("click", () => {
      state.sort = { column, descending: sort.column === column ? !sort.descending : column !== "head" };
      fillStatistics();
      showChoice();
      element("statistics").querySelector(`th[data-column="${column}"] button`).focus();
    });
    const heading = make("th", { scope: "col" }, button);
    heading.dataset.column = column;
    if (sort.column === column) heading.setAttribute("aria-sort", sort.descending ? "descending" : "ascending");
    return heading;
  });
  const greatest = Object.fromEntries(columns.map((column) => [column, Math.max(...view.statistics[column].flat(), 1e-9)]));
  let places = [];
  for (let layer = 0; layer < view.layers; layer++) places.push(...allHeads(view).map((head) => ({ layer, head })));
  if (sort.column !== "head") {
    const values = view.statistics[sort.column];
    places.sort((a, b) => values[a.layer][a.head] - values[b.layer][b.head]);
  }
  if (sort.descending) places = places.reverse();
  const body = make("tbody", {}, ...places.map((place, at) => statisticsRow(place, columns, greatest, at === 0)));
  element("statistics").replaceChildren(make("thead", {}, make("tr", {}, ...headings)), body);
}

function statisticsRow({ layer, head }, columns, greatest, first) {
  const { statistics } = state.view;
  const button = headButton(layer, head, `layer ${layer + 1}, head ${head + 1}`);
  button.tabIndex = first ? 0 : -1;
  button.addEventListener("click", () => chooseHead(layer, head));
  const row = make("tr", {}, make("th", { scope: "row" }, button));
  Object.assign(row.dataset, { layer, head });
  for (const column of columns) {
    const value = statistics[column][layer][head];
    const measured = ["distance", "entropy", "alignment"].includes(column);
    const cell = make("td", { textContent: measured ? value.toFixed(2) : percent(value, 1) });
    const most = ["distance", "entropy"].includes(column) ? greatest[column] : 1;
    cell.style.setProperty("--share", (value / most).toFixed(3));
    row.append(cell);
  }
  return row;
}

function fillAlignment() {
  const cross = state.unit.views.find((view) => view.kind === "cross");
  const { best, source, target, links, pharaoh } = data.alignment;
  element("best").replaceChildren(
    ...best.map(([layer, head]) => {
      const score = cross.statistics.alignment[layer - 1][head - 1].toFixed(2);
      const button = headButton(layer - 1, head - 1, `layer ${layer}, head ${head}: ${score}`);
      button.addEventListener("click", () => {
        chooseKind("cross");
        chooseHead(layer - 1, head - 1);
        element("lines-title").scrollIntoView({ block: "center" });
      });
      return make("li", {}, button);
    }),
  );
  const partner = new Map(links.map(([from, to]) => [to, source[from]]));
  element("aligned").replaceChildren(
    ...target.map((word, index) => make("span", { dir: "auto" }, word, make("small", { textContent: partner.get(index) ?? "–" }))),
  );
  element("pharaoh").textContent = pharaoh || "(no word to align)";
}
