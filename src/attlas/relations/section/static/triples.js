// Lines of attention between the phrases of a triple, above the words if they point forward in the
// text and below them if they point back. Data as triples.py gives it.
import { element, shape } from "attlas/dom.js";
import { onChange } from "attlas/model.js";

const NAMES = { h: "head", t: "tail", r: "relation words" };

// The widest of the lines of text that a phrase stands on.
function box(marks, around) {
  const rows = new Map();
  for (const part of marks.flatMap((mark) => [...mark.getClientRects()])) {
    const key = Math.round(part.top);
    const row = rows.get(key) ?? { left: Infinity, right: -Infinity };
    rows.set(key, {
      left: Math.min(row.left, part.left),
      right: Math.max(row.right, part.right),
      top: part.top,
      bottom: part.bottom,
    });
  }
  const [widest] = [...rows.values()].sort((a, b) => b.right - b.left - a.right + a.left);
  return {
    x: (widest.left + widest.right) / 2 - around.left,
    wide: widest.right - widest.left,
    top: widest.top - around.top - 1,
    foot: widest.bottom - around.top + 1,
  };
}

// A curve from one phrase to another with its head, as thick and dark as its weight. Curves between
// neighbouring phrases run inside the one from the first to the last.
function arrow(source, from, to, value, { onward, near }) {
  const toward = to.x >= from.x ? 1 : -1;
  const away = (end, side) => end.x + side * Math.min(end.wide / 2, 44) * (near ? 0.75 : 0.2);
  const [x1, x2] = [away(from, toward), away(to, -toward)];
  let y1, y2, leave, arrive;
  if (Math.abs(from.top - to.top) < 8) {
    y1 = y2 = onward ? Math.min(from.top, to.top) : Math.max(from.foot, to.foot);
    const bow = (near ? 18 : 40) + Math.min(8, Math.abs(x2 - x1) / 40);
    leave = arrive = onward ? -bow : bow;
  } else {
    [y1, y2, leave, arrive] = onward ? [from.foot, to.top, 24, -24] : [from.top, to.foot, -24, 24];
  }
  const size = 0.8 + 7 * Math.sqrt(value);
  const up = arrive < 0 ? 1 : -1;
  const tip = 2.5 + size / 2;
  const shade = Math.min(1, 0.25 + 0.75 * Math.sqrt(value));
  return [
    shape("path", {
      class: source,
      d: `M${x1} ${y1}C${x1} ${y1 + leave} ${x2} ${y2 + arrive} ${x2} ${y2 - up * tip}`,
      "stroke-width": size,
      "stroke-opacity": shade,
    }),
    shape("polygon", {
      class: source,
      points: `${x2},${y2} ${x2 - tip},${y2 - up * 2 * tip} ${x2 + tip},${y2 - up * 2 * tip}`,
      "fill-opacity": Math.min(1, shade + 0.2),
    }),
  ];
}

// The triple with these phrases, or one whose phrases hold all of the characters; -1 for none.
function tripleOf(triples, chosen, spans) {
  const same = triples.findIndex((one) => JSON.stringify(one.spans) === JSON.stringify(spans));
  if (same >= 0) return same;
  const holds = (one) =>
    spans.every(([start, stop]) => one?.spans.some(([from, to]) => start < to && from < stop));
  return holds(triples[chosen]) ? chosen : triples.findIndex(holds);
}

// One text with its triples.
class TripleText {
  constructor(place, data, view) {
    Object.assign(this, { place, view, text: data.text, triples: data.triples, chosen: 0 });
    this.phrases = place.querySelector(".phrases");
    this.says = place.querySelector(".says");
    this.marks = [...place.querySelectorAll("mark")];
    this.buttons = [...place.querySelectorAll("[data-triple]")];
    this.table = element("div", { class: "numbers", hidden: true });
    this.toggle = element("button", { type: "button", "aria-expanded": "false" }, "Show as table");
    this.toggle.className = "toggle";
    if (this.triples.some((one) => one.lines.length)) this.says.after(this.toggle, this.table);
    this.toggle.addEventListener("click", () => {
      this.table.hidden = !this.table.hidden;
      this.toggle.setAttribute("aria-expanded", String(!this.table.hidden));
      this.toggle.textContent = this.table.hidden ? "Show as table" : "Hide table";
    });
    this.buttons.forEach((button, number) => {
      button.addEventListener("click", () => this.choose(number));
      button.addEventListener("keydown", (event) => this.press(event, number));
    });
    this.table.append(this.numbers());
    place.addEventListener("toggle", () => this.show());
    new ResizeObserver(() => this.show()).observe(this.phrases);
  }

  choose(number) {
    this.chosen = number;
    this.show();
    this.view.share(this.text, this.triples[number].spans);
  }

  press(event, number) {
    const moves = { ArrowDown: 1, ArrowUp: -1, Home: -number };
    moves.End = this.buttons.length - 1 - number;
    if (!(event.key in moves)) return;
    event.preventDefault();
    const next = Math.max(0, Math.min(this.buttons.length - 1, number + moves[event.key]));
    this.choose(next);
    this.buttons[next].focus();
  }

  // The lines of all triples as numbers.
  numbers() {
    const titles = ["triple", "from", "to", "mean of all heads", "largest weight", "in"];
    const head = titles.map((one) => element("th", { scope: "col" }, one));
    const rows = this.triples.flatMap((one, number) =>
      one.lines.map(([source, target, mean, weight]) => {
        const cells = [NAMES[source], NAMES[target], mean.toFixed(2), weight.toFixed(2)];
        return element(
          "tr",
          {},
          element("th", { scope: "row" }, String(number + 1)),
          ...[...cells, one.strongest].map((cell) => element("td", {}, cell)),
        );
      }),
    );
    return element(
      "table",
      {},
      element("thead", {}, element("tr", {}, ...head)),
      element("tbody", {}, ...rows),
    );
  }

  show() {
    this.phrases.querySelector("svg")?.remove();
    this.buttons.forEach((button, number) => {
      button.setAttribute("aria-pressed", String(number === this.chosen));
      button.tabIndex = number === this.chosen ? 0 : -1;
    });
    if (!this.triples.length || !this.phrases.offsetWidth) return;
    const one = this.triples[this.chosen];
    for (const mark of this.marks) mark.className = "";
    for (const [role, mine] of Object.entries(one.marks)) {
      for (const mark of mine) this.marks[mark].className = role;
    }
    this.draw(one);
    const mean = this.view.measure === "mean";
    const line = one.lines
      .map(([source, target, average, weight]) => {
        const value = (mean ? average : weight).toFixed(2);
        return `${NAMES[source]} → ${NAMES[target]} ${value}`;
      })
      .join(", ");
    this.says.textContent = line
      ? `Attention by ${mean ? "the mean of all heads" : one.strongest}: ${line}`
      : "Not predicted: no lines.";
  }

  draw(one) {
    const order = Object.keys(one.marks).sort((a, b) => one.marks[a][0] - one.marks[b][0]);
    const around = this.phrases.getBoundingClientRect();
    const boxes = Object.fromEntries(
      order.map((role) => [role, box(one.marks[role].map((mark) => this.marks[mark]), around)]),
    );
    const svg = shape("svg", { "aria-hidden": "true" });
    for (const [source, target, average, weight] of one.lines) {
      const value = Math.max(0, this.view.measure === "mean" ? average : weight);
      const apart = order.indexOf(target) - order.indexOf(source);
      const where = { onward: apart > 0, near: Math.abs(apart) === 1 };
      svg.append(...arrow(source, boxes[source], boxes[target], value, where));
    }
    this.phrases.append(svg);
  }
}

class TripleTexts {
  constructor(model, el) {
    this.model = model;
    this.select = el.querySelector("select");
    const places = [...el.querySelectorAll("[data-text]")];
    this.texts = model.get("data").map((data, at) => new TripleText(places[at], data, this));
    this.select.addEventListener("change", () => {
      for (const one of this.texts) one.show();
    });
    this.follow();
    for (const one of this.texts) one.show();
  }

  get measure() {
    return this.select.value;
  }

  // Other views count words with special tokens, so phrases are named by their characters.
  share(text, spans) {
    this.model.set("selection", { text, words: [], spans });
    this.model.save_changes();
  }

  follow() {
    const selection = this.model.get("selection");
    if (!selection?.spans?.length) return;
    for (const one of this.texts) {
      if (selection.text !== one.text) continue;
      const number = tripleOf(one.triples, one.chosen, selection.spans);
      if (number < 0 || number === one.chosen) continue;
      one.chosen = number;
      one.show();
    }
  }
}

export default {
  render({ model, el, signal }) {
    const view = new TripleTexts(model, el);
    onChange(model, "selection", () => view.follow(), signal);
  },
};
