// The card of the chosen head: sentence, key numbers, small pictures, comparisons with verdicts,
// nearest heads and example texts. It follows the shared value `head`, and sets it.
import { arcText, linesOf } from "attlas/arcs.js";
import { onTheme } from "attlas/colour.js";
import { element, menu, shape } from "attlas/dom.js";
import { onChange } from "attlas/model.js";
import { multiple, tile } from "attlas/multiples.js";
import { inflated, inflatedJson } from "attlas/packing.js";
import { headName, headPlace, number, ordinal, rowWords } from "attlas/head_numbers.js";

const VERDICTS = { s: "signal", w: "weak", n: "nothing beyond chance" };
const ICONS = { s: "●", w: "○", n: "–" };
const ORDER = "swn-";
const MOST = 6; // comparisons before all are asked for
const PICTURES = ["bars", "rows", "tile", "line", "ranks"]; // in the order of a card
const QUANTILES = { 0: "lowest", 0.25: "25%", 0.5: "median", 0.75: "75%", 1: "highest" };

// What is known of all heads, with its bytes ready to read.
async function opened({ zlib }) {
  const data = await inflatedJson(zlib);
  const profiles = data.profiles.map(async (one) =>
    one.codes ? { ...one, cells: await inflated(one.codes) } : one,
  );
  const examples = data.examples && { ...data.examples };
  for (const name of examples ? ["query", "key", "weight"] : []) {
    const bytes = await inflated(examples[name]);
    const wide = examples.wide && name !== "weight";
    examples[name] = wide ? new Uint16Array(bytes.buffer) : bytes;
  }
  return { ...data, profiles: await Promise.all(profiles), examples };
}

// The rows of one head: what stands in columns, at its place.
export function rowsOf(data, place) {
  const out = [];
  for (const entry of data.rows) {
    const at = entry.heads ? entry.heads.indexOf(place) : place;
    if (at < 0) continue;
    const row = { ...entry, verdict: entry.verdicts[at] };
    for (const name of ["value", "low", "high", "control", "n"]) {
      row[name] = Array.isArray(entry[name]) ? entry[name][at] : (entry[name] ?? null);
    }
    out.push(row);
  }
  return out;
}

const grey = (...words) => element("span", { class: "grey" }, ...words);
const labelled = (row) => (row.unit ? `${row.label}, ${row.unit}` : row.label);

function verdict(letter) {
  if (!VERDICTS[letter]) return "";
  const icon = element("span", { "aria-hidden": "true" }, ICONS[letter]);
  return element("span", { class: `says ${letter}` }, icon, " ", VERDICTS[letter]);
}

function sentence(data, place) {
  const { words, numbers, verdicts, comparisons } = data.leads;
  const letter = verdicts[place];
  const line = element("p", { class: "lead", role: "status", "aria-live": "polite" });
  if (letter === "-") line.append("Not compared with a control.");
  else if (letter === "n") {
    const count = comparisons[place].toLocaleString("en");
    line.append(`Nothing beyond chance (comparisons: ${count}).`);
  } else {
    const claim = words[place].replace(/^L\d+H\d+ /, "");
    const begin = claim.slice(0, 1).toUpperCase() + claim.slice(1);
    line.append(element("b", {}, begin), `: ${numbers[place]} `, verdict(letter));
  }
  return line;
}

// Where a head stands among all that have the number; low values first where low is interesting.
function rank(row, entry) {
  const values = Array.isArray(entry.value) ? entry.value : null;
  if (!values) return "";
  const low = row.kind === "below";
  const ahead = values.filter((one) => (low ? one < row.value : one > row.value)).length;
  return `${ordinal(ahead + 1)} of ${values.length}${low ? ", lowest first" : ""}`;
}

function facts(data, rows) {
  const list = element("dl", { class: "facts" });
  for (const row of rows.filter((one) => one.key)) {
    const words = rowWords(row);
    const entry = data.rows.find((one) => one.label === row.label && one.section === row.section);
    list.append(
      element(
        "div",
        {},
        element("dt", {}, labelled(row)),
        element(
          "dd",
          {},
          element("b", {}, words.value),
          ` ${words.interval} `,
          grey(row.control_name ? `${row.control_name} ${words.control}` : "no control"),
        ),
        element("dd", { class: "grey" }, rank(row, entry)),
      ),
    );
  }
  return list.children.length ? list : "";
}

// A row as a dot with its interval and its control, on a scale from 0 to 1 where it is a share.
function dot(row) {
  const WIDTH = 96,
    MIDDLE = 8;
  const ends = [row.value, row.low, row.high, row.control].filter((one) => one !== null);
  const share = !row.unit && ends.every((one) => one >= 0 && one <= 1);
  const low = Math.min(0, ...ends),
    high = share ? 1 : Math.max(0, ...ends) || 1;
  const x = (value) => 5 + ((value - low) / (high - low || 1)) * (WIDTH - 10);
  const flat = (first, last, kind) =>
    shape("line", { x1: x(first), x2: x(last), y1: MIDDLE, y2: MIDDLE, class: kind });
  const svg = shape("svg", { width: WIDTH, height: 16, "aria-hidden": "true" });
  svg.append(flat(low, high, "axis"));
  if (row.low !== null && row.high !== null) svg.append(flat(row.low, row.high, "interval"));
  if (row.control !== null) {
    const tick = { x1: x(row.control), x2: x(row.control), y1: 2, y2: 14 };
    svg.append(shape("line", { ...tick, class: "control" }));
  }
  const kind = row.verdict === "s" ? "own" : "hollow";
  svg.append(shape("circle", { cx: x(row.value), cy: MIDDLE, r: 3.5, class: kind }));
  return svg;
}

function block(title, note, ...children) {
  const heading = element("h4", {}, title, " ", grey(note));
  return element("section", {}, heading, ...children);
}

// How far a value is on the side of its control that is of interest, as a share of the larger one.
function apart(row) {
  const largest = Math.max(Math.abs(row.value), Math.abs(row.control)),
    gap = row.value - row.control;
  const size = { above: gap, below: -gap }[row.kind] ?? Math.abs(gap);
  return largest ? size / largest : 0;
}

// Rows under the headings of their sections: probes first, then what is known of every head.
function evidence(data, rows) {
  const headings = new Map();
  for (const row of rows.filter((one) => one.control !== null && !one.other)) {
    const heading = data.sections[row.section].evidence;
    headings.set(heading, [...(headings.get(heading) ?? []), row]);
  }
  return [...headings].map(([heading, found]) => comparisons(data, heading, found));
}

function comparisons(data, heading, found) {
  found.sort(
    (one, other) =>
      ORDER.indexOf(one.verdict) - ORDER.indexOf(other.verdict) || apart(other) - apart(one),
  );
  const head = ["comparison", "value", "control", "verdict"];
  const body = element("tbody");
  const titles = head.map((one) => element("th", { scope: "col" }, one));
  const top = element("thead", {}, element("tr", {}, ...titles));
  const table = element("table", { class: "comparisons" }, top, body);
  const show = (count) => {
    body.replaceChildren(...found.slice(0, count).map((row) => compared(data, row)));
  };
  const note = "dot: value with its interval, corrected for all comparisons; grey: control";
  const out = block(heading, note, element("div", { class: "scroll" }, table));
  show(MOST);
  if (found.length > MOST) {
    const more = element("button", { type: "button" }, `Show all ${found.length}`);
    more.addEventListener("click", () => {
      show(found.length);
      more.remove();
    });
    out.append(more);
  }
  return out;
}

function compared(data, row) {
  const words = rowWords(row);
  const section = grey(data.sections[row.section].title),
    control = `${row.control_name} ${words.control}`;
  const name = element("th", { scope: "row" }, labelled(row), " ", section);
  return element(
    "tr",
    {},
    name,
    element("td", { class: "number" }, row.verdict ? element("b", {}, words.value) : words.value),
    element("td", {}, element("div", { class: "against" }, dot(row), grey(control))),
    element(
      "td",
      {},
      verdict(row.verdict) || grey("not tested"),
      element("span", { class: "n" }, words.n && `n = ${words.n}`),
    ),
  );
}

function nearest(data, rows, choose) {
  const near = rows.filter((row) => row.other).sort((one, other) => one.value - other.value);
  if (!near.length) return "";
  const maps = data.profiles.find((one) => one.picture === "tile");
  const first = near[0];
  const what = first.label.replace(` from ${first.other}`, "");
  const note = `${what}, ${first.unit}; ${first.control_name} ${rowWords(first).control}`;
  const list = element("div", { class: "near" });
  for (const row of near) {
    const place = headPlace(row.other, data.shape);
    const words = data.leads.words[place] ?? "";
    const button = element("button", { type: "button" });
    if (maps) button.append(tile(maps, place, `average heat map of ${row.other}`));
    const claim = data.leads.verdicts[place] === "s" ? words.replace(/^L\d+H\d+ /, "") : "";
    const about = element("b", {}, row.other);
    button.append(element("span", {}, about, ` ${rowWords(row).value} `, grey(claim)));
    button.addEventListener("click", () => choose(place));
    list.append(button);
  }
  return block("Nearest heads", note, list);
}

function texts(data, place, signal) {
  const some = data.examples;
  if (!some) return "";
  const from = some.per_head.slice(0, place).reduce((sum, one) => sum + one, 0);
  const count = some.per_head[place];
  if (!count) return "";
  const unit = some.unit ? `, ${some.unit}` : "";
  const control = Array.isArray(some.control) ? "" : `; uniform attention ${number(some.control)}`;
  const lines =
    "lines: largest weights above uniform attention; above the words: to earlier ones";
  const note = `${some.label}${unit}${control}; ${lines}`;
  const list = element("div", { class: "texts" });
  for (let at = from + count - 1; at >= from; at--) {
    const text = data.examples.texts[some.text[at]];
    const own = Array.isArray(some.control) ? ` uniform ${number(some.control[at])}` : "";
    const score = element("b", {}, number(some.score[at]));
    const name = QUANTILES[some.quantile[at]] ?? `${Math.round(100 * some.quantile[at])}%`;
    const drawn = text.tokens
      ? arcText(text, linesOf(some, at), signal)
      : [element("p", { dir: "auto" }, text.begins), grey("too long for lines")];
    const about = element("div", {}, grey(name), " ", score, grey(own));
    list.append(element("div", { class: "text-row" }, about, element("div", {}, ...drawn)));
  }
  return block("Texts from highest to lowest score", note, list);
}

function asTable(data, rows) {
  const head = ["section", "number", "value", "interval", "control", "", "n", "verdict"];
  const titles = head.map((one) => element("th", { scope: "col" }, one));
  const body = rows.map((row) => {
    const words = rowWords(row);
    const cells = [words.value, words.interval, words.control, row.control_name || "none", words.n];
    return element(
      "tr",
      {},
      element("td", { class: "grey" }, data.sections[row.section].title),
      element("th", { scope: "row" }, labelled(row)),
      ...cells.map((one, at) => element("td", { class: at === 3 ? "grey" : "number" }, one)),
      element("td", {}, VERDICTS[row.verdict] ?? ""),
    );
  });
  const table = element(
    "table",
    { class: "every" },
    element("thead", {}, element("tr", {}, ...titles)),
    element("tbody", {}, ...body),
  );
  const frame = { class: "scroll", tabindex: 0, role: "region", "aria-label": "All numbers" };
  return element("div", frame, table);
}

function invitation(data, choose) {
  const line = element("p", { class: "lead", role: "status" }, "Choose a head");
  const list = element("ul", { class: "first" });
  for (const place of data.leads.strongest) {
    const button = element("button", { type: "button" }, headName(place, data.shape[1]));
    button.addEventListener("click", () => choose(place));
    const claim = data.leads.words[place].replace(/^L\d+H\d+ /, "");
    list.append(element("li", {}, button, " ", claim));
  }
  const hint = element("p", { class: "grey" }, "in any grid or list of heads, or here:");
  return [line, hint, list];
}

function body(data, place, choose, signal) {
  const rows = rowsOf(data, place);
  const pictures = data.profiles.filter((one) =>
    one.picture === "tile" ? one.most[0][place] > 0 : one.values[place].some((v) => v !== null),
  );
  pictures.sort((one, other) => PICTURES.indexOf(one.picture) - PICTURES.indexOf(other.picture));
  const multiples = element("div", { class: "multiples" });
  multiples.append(...pictures.map((one) => multiple(one, place, data.shape[1])));
  return [
    sentence(data, place),
    facts(data, rows),
    pictures.length ? multiples : "",
    ...evidence(data, rows),
    nearest(data, rows, choose),
    texts(data, place, signal),
  ];
}

// The title with buttons to the head before and after, a menu of all heads, and the switch.
function bar(data, choose, toggle) {
  const [layers, heads] = data.shape;
  const name = element("h3", { tabindex: -1 });
  const where = grey();
  const before = element("button", { type: "button" }),
    after = element("button", { type: "button" }),
    asTable = element("button", { type: "button", "aria-pressed": "false" }, "Show as table");
  const groups = { "": [["", "choose"]] };
  for (let layer = 0; layer < layers; layer++) {
    const names = Array.from({ length: heads }, (_, head) => `L${layer}H${head}`);
    groups[`layer ${layer}`] = names.map((one) => [one, one]);
  }
  const { select, label } = menu("head", "head", groups);
  select.addEventListener("change", () => choose(headPlace(select.value, data.shape)));
  before.addEventListener("click", () => choose(Number(before.dataset.place)));
  after.addEventListener("click", () => choose(Number(after.dataset.place)));
  asTable.addEventListener("click", () => {
    const on = asTable.getAttribute("aria-pressed") !== "true";
    asTable.setAttribute("aria-pressed", String(on));
    asTable.textContent = on ? "Show as pictures" : "Show as table";
    toggle(on);
  });
  const show = (place) => {
    const chosen = place >= 0,
      count = layers * heads;
    name.textContent = chosen ? headName(place, heads) : "Head card";
    where.textContent = chosen
      ? `layer ${Math.floor(place / heads)}, head ${place % heads} of ${heads}`
      : "";
    select.value = chosen ? headName(place, heads) : "";
    const near = [
      [before, (Math.max(place, 0) + count - 1) % count, (one) => `‹ ${one}`, "previous head"],
      [after, (place + 1) % count, (one) => `${one} ›`, "next head"],
    ];
    for (const [button, to, words, label] of near) {
      button.dataset.place = to;
      button.textContent = words(headName(to, heads));
      button.setAttribute("aria-label", `${label}, ${headName(to, heads)}`);
    }
    asTable.hidden = !chosen;
  };
  const tools = element("span", { class: "tools" }, before, after, label, asTable);
  return { node: element("header", {}, name, where, tools), name, show };
}

export default {
  async render({ model, el, signal }) {
    const data = await opened(model.get("data"));
    const place = element("div", { class: "attlas-card" });
    const content = element("div");
    let table = false,
      drawn = null;
    const shown = () => headPlace(model.get("head"), data.shape);
    const choose = (to) => {
      model.set("head", to < 0 ? "" : headName(to, data.shape[1]));
      model.save_changes();
      if (!place.contains(document.activeElement)) top.name.focus();
    };
    const top = bar(data, choose, (on) => {
      table = on;
      draw();
    });
    const draw = () => {
      drawn?.abort();
      drawn = new AbortController();
      const at = shown();
      top.show(at);
      const parts =
        at < 0
          ? invitation(data, choose)
          : table
            ? [sentence(data, at), asTable(data, rowsOf(data, at))]
            : body(data, at, choose, drawn.signal);
      content.replaceChildren(...parts);
    };
    onChange(model, "head", draw, signal);
    onTheme(draw, signal);
    signal?.addEventListener("abort", () => drawn?.abort());
    place.append(top.node, content);
    el.replaceChildren(place);
    draw();
  },
};
