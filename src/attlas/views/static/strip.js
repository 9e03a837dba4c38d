// One dot per head by layer, and the control in grey: layers down, or across as the grid has them.
import { element, shape } from "attlas/dom.js";
import { axis, known, ticks } from "attlas/numbers.js";

const EDGE = 14; // pixels before the first and after the last value

// `step` is the room of a layer, `size` that of the values, `across` whether layers lie across,
// `before` the room of the names of rows.
export function strip(heads, column, { step, size, across, before, chosen, choose }) {
  const values = column.values.filter(known);
  const controls = heads.count ? controlsByLayer(heads, column) : [];
  const all = [0, ...values, ...controls.flat()];
  const low = Math.min(...all);
  const high = Math.max(...all, low + 1e-12);
  const share = (value) => (value - low) / (high - low);
  const along = (layer) => before + step * (layer + 0.5);
  const at = (value) => EDGE + share(value) * (size - 2 * EDGE);
  const point = (layer, value) =>
    across ? [along(layer), size - at(value)] : [at(value), along(layer)];
  const long = before + step * heads.layers;
  const [width, height] = across ? [long, size] : [size, long + 18];
  const svg = shape("svg", {
    viewBox: `0 0 ${width} ${height}`,
    width,
    height,
    role: "img",
    "aria-label": `${column.label}: one dot per head by layer`,
  });
  for (const value of ticks(low, high, 5)) {
    const y = size - at(value);
    svg.append(line("rule", across ? [before, y, long, y] : [at(value), 0, at(value), long]));
    const place = across
      ? { x: before - 4, y: y + 4, "text-anchor": "end" }
      : { x: at(value), y: long + 14, "text-anchor": "middle" };
    svg.append(shape("text", place, axis(value)));
  }
  controls.forEach((some, layer) => {
    for (const value of some) {
      const [x, y] = point(layer, value);
      const half = step / 2;
      svg.append(line("control", across ? [x - half, y, x + half, y] : [x, y - half, x, y + half]));
    }
  });
  column.values.forEach((value, index) => {
    if (!known(value)) return;
    const [cx, cy] = point(Math.floor(index / heads.heads), value);
    const dot = shape("circle", { cx, cy, r: 4, class: index === chosen ? "chosen" : "value" });
    dot.append(shape("title", {}, `${heads.name(index)}: ${heads.says(column, index)}`));
    dot.addEventListener("click", () => choose(index));
    svg.append(dot);
  });
  const dots = svg.querySelector(".chosen");
  if (dots) svg.append(dots);
  const grey = column.control ? `; grey: ${column.control}` : "";
  const note = element("div", { class: "note" }, `by layer${grey}`);
  return element("div", { class: "strip" }, note, svg);
}

function line(kind, [x1, y1, x2, y2]) {
  return shape("line", { class: kind, x1, y1, x2, y2 });
}

// The controls of each layer, those that differ.
function controlsByLayer(heads, column) {
  return Array.from({ length: heads.layers }, (_, layer) => {
    const own = Array.from({ length: heads.heads }, (_, head) =>
      column.controlOf(layer * heads.heads + head),
    ).filter(known);
    return [...new Set(own.map((value) => Number(value.toPrecision(3))))];
  });
}
