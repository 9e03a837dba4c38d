// The numbers of a picture of heads as a table: a row per head, in a fold that says so.
import { element } from "attlas/dom.js";
import { decimal, known } from "attlas/numbers.js";
import { onChange } from "attlas/model.js";

export function headTable(heads, chosen, signal) {
  const place = element("div", { class: "window" });
  const fold = element("details", { class: "numbers" }, summary(), place);
  const draw = () => {
    if (fold.open) place.replaceChildren(table(heads, chosen.column));
  };
  fold.addEventListener("toggle", draw);
  onChange(chosen.model, "column", draw, signal);
  return fold;
}

function summary() {
  return element("summary", {}, "Show as table");
}

function table(heads, column) {
  const titles = ["head", column.label, ...(column.control ? [column.control] : [])];
  const top = element("tr", {}, ...titles.map((title) => element("th", { scope: "col" }, title)));
  const rows = [];
  for (let index = 0; index < heads.count; index++) {
    if (!known(column.values[index])) continue;
    const numbers = [column.values[index], column.controlOf(index)].slice(0, titles.length - 1);
    rows.push(
      element(
        "tr",
        {},
        element("th", { scope: "row" }, heads.name(index)),
        ...numbers.map((one) => element("td", {}, precise(one))),
      ),
    );
  }
  return element("table", {}, element("thead", {}, top), element("tbody", {}, ...rows));
}

// As many digits as there are in the data.
function precise(value) {
  if (!known(value)) return "–";
  return Math.abs(value) >= 0.001 || !value
    ? String(value).replace("-", "\u2212")
    : decimal(value, true);
}
