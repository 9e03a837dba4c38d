// Words on both sides and a line for each weight between them: who attends on the left, who is
// attended to on the right. Several heads, or several sentences, next to each other.
import { element, menu, shape } from "attlas/dom.js";
import { onTheme, theme } from "attlas/colour.js";
import { unpacked } from "attlas/packing.js";

const STEP = 24; // pixels from word to word
const SIDE = 116;
const MIDDLE = 104;
const LETTERS = 15;
const FAINT = 0.02; // weights of an example that have no line
const ROWS = 200; // of a table
const short = (word) => {
  const letters = [...word];
  return letters.length > LETTERS ? letters.slice(0, LETTERS - 1).join("") + "…" : word;
};

// One panel: words are [string, whether it is chosen], pairs [query, key, weight, whether it is
// known to be right].
export function drawLines(words, pairs, label) {
  const [width, height] = [2 * SIDE + MIDDLE, words.length * STEP + 4];
  const box = `0 0 ${width} ${height}`;
  const svg = shape("svg", { viewBox: box, role: "group", "aria-label": label });
  const at = (word) => word * STEP + STEP / 2;
  const lines = pairs.map(([query, key, weight, gold]) => {
    const [x1, x2, bend] = [SIDE, SIDE + MIDDLE, MIDDLE * 0.4];
    const path = shape("path", {
      d: `M${x1} ${at(query)}C${x1 + bend} ${at(query)} ${x2 - bend} ${at(key)} ${x2} ${at(key)}`,
      class: gold ? "gold" : "",
      "stroke-width": Math.max(1, 5 * weight).toFixed(2),
      "stroke-opacity": (gold ? 1 : 0.3 + 0.7 * Math.sqrt(weight)).toFixed(2),
      "data-query": query,
      "data-key": key,
    });
    const said = `${words[query][0]} → ${words[key][0]}: ${weight.toFixed(3)}`;
    path.append(shape("title", {}, said));
    svg.append(path);
    return { path, query, key, weight };
  });
  const labels = words.flatMap(([word, chosen], index) =>
    [0, 1].map((side) => {
      const text = shape(
        "text",
        {
          x: side ? SIDE + MIDDLE + 6 : SIDE - 6,
          y: at(index) + 4,
          "text-anchor": side ? "start" : "end",
          class: chosen ? "chosen" : "",
        },
        short(word),
      );
      svg.append(text);
      return { text, side, index };
    }),
  );
  return { svg, lines, labels };
}

function asTable(words, pairs, caption) {
  const rows = [...pairs].sort((a, b) => b[2] - a[2]).slice(0, ROWS);
  const cells = (name, row) => row.map((one) => element(name, {}, one));
  return element(
    "table",
    {},
    element("caption", {}, caption),
    element("thead", {}, element("tr", {}, ...cells("th", ["query", "key", "weight"]))),
    element(
      "tbody",
      {},
      ...rows.map(([query, key, weight]) =>
        element("tr", {}, ...cells("td", [words[query][0], words[key][0], weight.toFixed(3)])),
      ),
    ),
  );
}

// Panels of several heads in a window of a text: [title, orange, pairs] each.
export function showPanels(place, words, panels, asTables) {
  place.replaceChildren(
    ...panels.map(([title, chosen, pairs]) => {
      const head = element("h4", { class: chosen ? "chosen" : "" }, title);
      if (asTables) return element("div", {}, asTable(words, pairs, title));
      return element("div", {}, head, drawLines(words, pairs, title).svg);
    }),
  );
}

// The words of a panel can be chosen one by one: only their lines are left. Arrows move along them.
function choosable({ svg, lines, labels }, words, say) {
  let focused = 0;
  svg.setAttribute("role", "listbox");
  const only = ({ side, index }) => {
    const mine = lines.filter((one) => (side ? one.key : one.query) === index);
    for (const one of lines) one.path.classList.toggle("off", !mine.includes(one));
    const most = [...mine].sort((a, b) => b.weight - a.weight).slice(0, 4);
    const other = (one) => words[side ? one.query : one.key][0];
    const listed = most.map((one) => `${other(one)} ${one.weight.toFixed(2)}`);
    const verb = side ? "is attended to by" : "attends to";
    say(`“${words[index][0]}” ${verb} ${listed.join(", ") || `nothing above ${FAINT}`}`);
  };
  const all = () => {
    for (const one of lines) one.path.classList.remove("off");
    say("");
  };
  labels.forEach((label, number) => {
    label.text.setAttribute("role", "option");
    label.text.setAttribute("tabindex", number ? -1 : 0);
    for (const event of ["mouseenter", "focus"]) {
      label.text.addEventListener(event, () => only(label));
    }
    for (const event of ["mouseleave", "blur"]) label.text.addEventListener(event, all);
  });
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 2, ArrowUp: -2, ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const next = labels[focused + step];
    if (!next) return;
    event.preventDefault();
    labels[focused].text.setAttribute("tabindex", -1);
    focused += step;
    next.text.setAttribute("tabindex", 0);
    next.text.focus();
  });
}

async function pairsOf(one) {
  const codes = await unpacked(one.codes);
  const count = one.words.length;
  const known = new Set(one.gold.map(([query, key]) => query * count + key));
  const pairs = [];
  codes.forEach((code, at) => {
    const weight = (code / 65535) * one.scale;
    const pair = [Math.floor(at / count), at % count, weight, known.has(at)];
    if (weight >= FAINT || known.has(at)) pairs.push(pair);
  });
  return pairs;
}

const stroke = (kind) =>
  shape("svg", { viewBox: "0 0 36 10", "aria-hidden": "true" }, shape("path", {
    d: "M0 5H36",
    class: kind,
    "stroke-width": 3,
  }));

// Sentences of several heads: those of one head and relation next to each other.
async function chooseSentences(el, sentences) {
  const groups = new Map();
  for (const one of sentences) groups.set(one.about, [...(groups.get(one.about) ?? []), one]);
  const names = [...groups.keys()];
  const { select, label } = menu("relation and head", "example", names.map((one, at) => [at, one]));
  const key = element("span", { class: "key" }, stroke("gold"), " the relation ", stroke(""));
  key.append(" other attention, weights from 0.02; left attends to right");
  const box = element("input", { type: "checkbox" });
  const all = element("label", {}, box, " lines of special tokens");
  all.hidden = !sentences.some((one) => one.special?.length);
  box.addEventListener("change", () => show());
  const table = element("button", { type: "button", "aria-pressed": "false" }, "Show as table");
  const said = element("p", { class: "note says", role: "status", "aria-live": "polite" });
  const panels = element("div", { class: "panels" });
  el.replaceChildren(element("div", { class: "controls" }, label, all, table), key, panels, said);
  const known = new Map();
  for (const one of sentences) known.set(one, await pairsOf(one));
  function shownPairs(one) {
    const special = new Set(box.checked ? [] : one.special);
    return known.get(one).filter(([from, to, , gold]) =>
      gold || !(special.has(from) || special.has(to)),
    );
  }
  function show() {
    const group = groups.get(names[Number(select.value)]);
    const pairs = group.map(shownPairs);
    const asTables = table.getAttribute("aria-pressed") === "true";
    panels.replaceChildren(
      ...group.map((one, at) => {
        const words = one.words.map((word) => [word, false]);
        if (asTables) return element("div", {}, asTable(words, pairs[at], one.title));
        const drawn = drawLines(words, pairs[at], one.title);
        choosable(drawn, words, (line) => (said.textContent = line));
        const begins = one.title.startsWith(one.about) ? one.title.slice(one.about.length) : "";
        const head = element("h4", {}, element("span", {}, begins.replace(/^: /, "")));
        return element("div", {}, head, drawn.svg);
      }),
    );
  }
  select.addEventListener("change", show);
  table.addEventListener("click", () => {
    table.setAttribute("aria-pressed", table.getAttribute("aria-pressed") !== "true");
    show();
  });
  show();
}

export default {
  async render({ model, el, signal }) {
    el.classList.add("attlas-lines");
    const themed = () => (el.dataset.theme = theme());
    themed();
    onTheme(themed, signal);
    await chooseSentences(el, model.get("data"));
  },
};
