// The numbers of a picture of heads as a table: a row per head, in a fold that says so.
import { element } from "attlas/dom.js";
import { decimal, known } from "attlas/numbers.js";

// `content` gives the titles and the rows: the name of a head and its numbers. `draw` is called
// when they have changed.
export function foldedTable(content) {
  const place = element("div", { class: "window" });
  const fold = element(
    "details",
    { class: "numbers attlas-numbers" },
    element("summary", {}, "Show as table"),
    place,
  );
  const draw = () => {
    if (fold.open) place.replaceChildren(table(...content()));
  };
  fold.addEventListener("toggle", draw);
  return { fold, draw };
}

// The heads that have a number, by some columns, each with its control.
export function columnRows(heads, columns) {
  const titles = columns.flatMap(({ label, control }) => [label, ...(control ? [control] : [])]);
  const rows = [];
  for (let index = 0; index < heads.count; index++) {
    if (!columns.some(({ values }) => known(values[index]))) continue;
    const numbers = columns.flatMap(({ values, control, controlOf }) => [
      values[index],
      ...(control ? [controlOf(index)] : []),
    ]);
    rows.push([heads.name(index), ...numbers]);
  }
  return [titles, rows];
}

function table(titles, rows) {
  const cells = ["head", ...titles].map((title) => element("th", { scope: "col" }, title));
  const lines = rows.map(([name, ...numbers]) =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, name),
      ...numbers.map((one) => element("td", {}, precise(one))),
    ),
  );
  return element(
    "table",
    {},
    element("thead", {}, element("tr", {}, ...cells)),
    element("tbody", {}, ...lines),
  );
}

// As many digits as there are in the data.
function precise(value) {
  if (!known(value)) return "–";
  return Math.abs(value) >= 0.001 || !value
    ? String(value).replace("-", "\u2212")
    : decimal(value, true);
}
