// What the selected words of a text attend to, and what attends to them: bars with uniform
// attention as a tick, and how much is on other words.
import { element } from "attlas/dom.js";

const LISTED = 8;
const TITLES = ["attend to", "attended by"];
export const fixed = (value) => {
  if (!(value > 0 && value < 0.005)) return value.toFixed(2);
  return value < 0.0005 ? "< 0.001" : value.toFixed(3); // uniform attention of a long text
};

function bar(value, even, most) {
  const place = element("span", { class: "bar", "aria-hidden": "true" });
  const filled = element("span", { class: value > even ? "above" : "" });
  filled.style.width = `${(100 * value) / most}%`;
  const tick = element("i");
  tick.style.left = `${(100 * even) / most}%`;
  place.append(filled, tick);
  return place;
}

// The largest of a row: [unit, weight, uniform].
export function largest({ values, uniform }, count = LISTED) {
  const order = [];
  values.forEach((value, unit) => value > 0 && order.push(unit));
  order.sort((a, b) => values[b] - values[a] || a - b);
  return order.slice(0, count).map((unit) => [unit, values[unit], uniform[unit]]);
}

function listed(title, row, units, jump) {
  const items = largest(row);
  const shown = items.reduce((sum, [, value]) => sum + value, 0);
  const every = row.values.reduce((sum, value) => sum + value, 0) + row.rest;
  const most = Math.max(...items.map(([, value, even]) => Math.max(value, even)), 1e-9);
  const body = element("tbody");
  for (const [unit, value, even] of items) {
    const word = units.string(unit);
    const name = element("button", { type: "button", class: "link", dir: "auto" }, word);
    name.addEventListener("click", () => jump(unit));
    const said = `${fixed(value)} (uniform ${fixed(even)})`;
    body.append(
      element(
        "tr",
        { title: said },
        element("th", { scope: "row" }, name),
        element("td", { class: "number" }, String(unit + 1)),
        element("td", {}, bar(value, even, most)),
        element("td", { class: "number" }, fixed(value)),
        element("td", { class: "number even" }, fixed(even)),
      ),
    );
  }
  const heads = [title, "", "", "weight", "uniform"].map((one) => element("th", {}, one));
  const others = Math.max(0, every - shown).toFixed(2);
  const note = `${shown.toFixed(2)} listed, ${others} on other ${units.name}.`;
  return element(
    "div",
    {},
    element("table", {}, element("thead", {}, element("tr", {}, ...heads)), body),
    element("p", { class: "note" }, note),
  );
}

// The rows of a selection, [attends to, attended by], as two lists.
export function showLists(place, rows, units, jump) {
  place.replaceChildren(
    ...rows.map((row, side) => listed(TITLES[side], row, units, jump)),
  );
}
