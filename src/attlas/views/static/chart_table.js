// The numbers of a chart as tables: what its tooltips name, a row per mark.
import { element } from "attlas/dom.js";
import { decimal } from "attlas/numbers.js";

const MOST_ROWS = 1000;
const PARTS = ["layer", "hconcat", "vconcat", "concat"];

// The columns of each set of data: those of the tooltip with most of them.
function columnsByData(spec, outer = undefined, found = new Map()) {
  const data = spec.data?.name ?? outer;
  const columns = named(spec.encoding ?? {});
  if (data && columns.length > (found.get(data)?.length ?? 0)) found.set(data, columns);
  for (const part of [...PARTS.flatMap((name) => spec[name] ?? []), spec.spec ?? []].flat()) {
    columnsByData(part, data, found);
  }
  return found;
}

function named(encoding) {
  const tooltip = [encoding.tooltip ?? []].flat();
  const axes = ["y", "x", "color"].map((channel) => encoding[channel] ?? {});
  const usual = tooltip.some((one) => one.field) ? tooltip : axes;
  return usual
    .filter((one) => one.field)
    .map(({ field, title }) => ({ field: field.replace(/\\(.)/g, "$1"), title: words(title) }));
}

function words(title) {
  return [title ?? ""].flat().join(" ");
}

export function chartTables(spec) {
  const out = [];
  for (const [name, columns] of columnsByData(spec)) {
    const every = spec.datasets?.[name] ?? [];
    const known = columns.filter(({ field }) => every.some((row) => field in row));
    if (known.length) out.push(table(every, known));
  }
  return out;
}

function table(every, columns) {
  const seen = new Set();
  const rows = [];
  for (const row of every) {
    const cells = columns.map(({ field }) => cell(row[field]));
    const key = cells.join("\t");
    if (!seen.has(key)) rows.push(cells);
    seen.add(key);
  }
  const top = columns.map(({ title }) => element("th", { scope: "col" }, title));
  const body = rows.slice(0, MOST_ROWS).map(([first, ...rest]) => {
    const cells = rest.map((one) => element("td", {}, one));
    return element("tr", {}, element("th", { scope: "row" }, first), ...cells);
  });
  const left = rows.length - body.length;
  const note = left > 0 ? [element("p", {}, `${left.toLocaleString("en")} more rows`)] : [];
  const head = element("thead", {}, element("tr", {}, ...top));
  const whole = element("table", { class: "lists" }, head, element("tbody", {}, ...body));
  return element("div", { class: "window" }, whole, ...note);
}

function cell(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return String(value);
  return Number.isInteger(value) ? value.toLocaleString("en") : decimal(value, value < 0.1);
}
