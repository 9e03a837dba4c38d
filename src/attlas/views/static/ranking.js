// The heads that changed most in one number: from A (ring) to B (dot), and the difference with its
// interval; grey are the controls. Data: head_changes.py.
import { colour, onTheme, theme } from "attlas/colour.js";
import { element, shape } from "attlas/dom.js";
import { changeAt, changeWords, signed } from "attlas/head_change.js";
import { Chosen, Heads } from "attlas/head_columns.js";
import { axis, decimal, known, ticks } from "attlas/numbers.js";

const FEW = 14; // heads that are shown at first, of those that count
const LEAST = 5; // also where none does
const ROW = 24; // pixels
const NARROW = 560; // pixels below which A and B are written instead of drawn
const SHADE = 0.72; // of what rose or fell
const TITLES = ["head", "A", "B", "B − A", "corrected interval", "uniform", "two halves of A"];

class Ranking {
  constructor(model, el, signal) {
    this.el = el;
    this.data = model.get("data");
    this.heads = new Heads(this.data.difference);
    this.chosen = new Chosen(model, this.heads, signal, {
      onHead: () => this.draw(),
      onColumn: () => this.drawColumn(),
    });
    this.list = element("div", { class: "list" });
    this.table = element("div", { class: "window" });
    const summary = element("summary", {}, "Show as table");
    this.fold = element("details", { class: "numbers" }, summary, this.table);
    this.fold.addEventListener("toggle", () => this.drawTable());
    el.classList.add("attlas-ranking");
    el.replaceChildren(this.list, this.fold);
    const observer = new ResizeObserver(() => this.resize());
    observer.observe(el);
    signal?.addEventListener("abort", () => observer.disconnect());
    onTheme(() => this.draw(), signal);
    this.drawColumn();
  }

  get column() {
    return this.data.changes[this.chosen.column.name];
  }

  resize() {
    if ((this.el.clientWidth || 700) !== this.width) this.draw();
  }

  drawColumn() {
    this.all = false;
    this.draw();
    this.drawTable();
  }

  draw() {
    this.el.style.colorScheme = theme();
    this.width = this.el.clientWidth || 700;
    const { order, counts } = this.column;
    const head = this.chosen.head;
    const shown = this.all ? [...order] : order.slice(0, Math.min(FEW, Math.max(LEAST, counts)));
    if (head >= 0 && !shown.includes(head) && order.includes(head)) shown.push(head);
    this.scales(shown);
    const label = this.chosen.column.label;
    const titles = this.narrow ? ["head", "A", "B"] : ["head", label];
    const top = [...titles, "B − A", ""].map((one) => element("th", { scope: "col" }, one));
    const rows = shown.map((index) => this.row(index, order.indexOf(index) < counts));
    const rest = order.length - shown.length;
    const more = element("button", { type: "button", class: "plain" }, "Show all");
    more.addEventListener("click", () => {
      this.all = true;
      this.draw();
    });
    this.list.replaceChildren(
      element(
        "table",
        {},
        element("thead", {}, element("tr", {}, ...top)),
        element("tbody", {}, ...rows, this.axes()),
      ),
      element(
        "p",
        { class: "note" },
        this.words(),
        ...(rest > 0 ? [` ${rest} more · `, more] : []),
      ),
    );
  }

  words() {
    const seed = this.column.seed ? ", grey ring: another seed" : "";
    return `Ring: A, dot: B; grey band: two halves of A${seed}; hollow: does not count.`;
  }

  // The ends of both scales: values from 0, differences around 0.
  scales(shown) {
    this.narrow = this.width < NARROW;
    const changes = shown.map((index) => changeAt(this.column, index));
    const values = changes.flatMap(({ a, b, uniform }) => [a, b, uniform]).filter(known);
    const sizes = changes
      .flatMap(({ difference, low, high, halves, seed }) => [difference, low, high, halves, seed])
      .filter(known)
      .map(Math.abs);
    this.low = Math.min(0, ...values);
    this.high = Math.max(...values, this.low + 1e-9) * 1.02;
    this.most = Math.max(...sizes, 1e-9) * 1.08;
    const room = this.width - 56 - 64 - 24;
    this.first = this.narrow ? 0 : Math.round(room * 0.55);
    this.second = Math.max(120, this.narrow ? room - 90 : room - this.first);
  }

  atValue(value) {
    return 8 + ((value - this.low) / (this.high - this.low)) * (this.first - 16);
  }

  atDifference(value) {
    return this.second / 2 + (value / this.most) * (this.second / 2 - 8);
  }

  row(index, counts) {
    const change = changeAt(this.column, index);
    const name = this.heads.name(index);
    const is = index === this.chosen.head;
    const button = element("button", { type: "button", "aria-pressed": String(is) }, name);
    const tint = `rgb(${colour(change.difference > 0 ? SHADE : -SHADE, true).join(" ")})`;
    const ink = counts ? tint : "var(--own-grey)";
    const values = this.narrow
      ? [change.a, change.b].map((one) => element("td", { class: "number" }, decimal(one)))
      : [element("td", {}, this.values(change, ink))];
    const row = element(
      "tr",
      { class: is ? "chosen" : "" },
      element("th", { scope: "row" }, button),
      ...values,
      element("td", {}, this.difference(change, ink, counts)),
      element("td", { class: "number" }, signed(change.difference)),
    );
    row.title = `${name}: ${changeWords(change)}`;
    row.addEventListener("click", () => {
      this.chosen.choose(is ? -1 : index);
      const buttons = [...this.list.querySelectorAll("button")];
      buttons.find((one) => one.textContent === name)?.focus({ preventScroll: true });
    });
    return row;
  }

  values({ a, b, uniform }, ink) {
    const svg = picture(this.first, `A ${decimal(a)}, B ${decimal(b)}`);
    const y = ROW / 2;
    if (known(uniform)) svg.append(line("uniform", this.atValue(uniform), 0, ROW));
    const [from, to] = [this.atValue(a), this.atValue(b)];
    svg.append(shape("line", { x1: from, x2: to, y1: y, y2: y, stroke: ink, "stroke-width": 3 }));
    svg.append(shape("circle", { cx: from, cy: y, r: 4, class: "hollow" }));
    svg.append(shape("circle", { cx: to, cy: y, r: 4.5, class: "full" }));
    return svg;
  }

  difference({ difference, low, high, halves, seed }, ink, counts) {
    const words = `B − A ${signed(difference)}, from ${decimal(low)} to ${decimal(high)}`;
    const svg = picture(this.second, words);
    const y = ROW / 2;
    const at = (value) => this.atDifference(value);
    if (known(halves)) {
      const band = { x: at(-halves), width: at(halves) - at(-halves), y: 0, height: ROW };
      svg.append(shape("rect", { ...band, class: "band" }));
    }
    svg.append(line("zero", at(0), 0, ROW));
    if (known(seed)) svg.append(shape("circle", { cx: at(seed), cy: y, r: 3.5, class: "seed" }));
    if (known(low)) {
      const ends = { x1: at(low), x2: at(high), y1: y, y2: y };
      svg.append(shape("line", { ...ends, stroke: ink, "stroke-width": 2.5 }));
    }
    const fill = counts ? ink : "var(--own-ground)";
    const dot = { cx: at(difference), cy: y, r: 4, fill, stroke: ink, "stroke-width": 1.5 };
    svg.append(shape("circle", dot));
    return svg;
  }

  // The last row: the numbers of both scales.
  axes() {
    const first = this.narrow ? null : picture(this.first, "", ROW + 6);
    if (first) {
      for (const value of ticks(this.low, this.high, 4)) {
        first.append(label(this.atValue(value), axis(value)));
      }
    }
    const second = picture(this.second, "", ROW + 6);
    for (const value of ticks(-this.most, this.most, this.narrow ? 2 : 4)) {
      second.append(label(this.atDifference(value), axis(value)));
    }
    const cells = first ? [element("td", {}, first)] : [element("td"), element("td")];
    return element(
      "tr",
      { class: "axes", "aria-hidden": "true" },
      element("td"),
      ...cells,
      element("td", {}, second),
      element("td"),
    );
  }

  drawTable() {
    if (!this.fold.open) return;
    const titles = [...TITLES, ...(this.column.seed ? ["another seed"] : [])];
    const top = titles.map((one) => element("th", { scope: "col" }, one));
    const rows = this.column.order.map((index) => {
      const one = changeAt(this.column, index);
      const interval = known(one.low) ? `[${decimal(one.low)}, ${decimal(one.high)}]` : "–";
      const numbers = [decimal(one.a), decimal(one.b), signed(one.difference), interval];
      numbers.push(decimal(one.uniform), `±${decimal(one.halves)}`);
      if (this.column.seed) numbers.push(known(one.seed) ? signed(one.seed) : "–");
      return element(
        "tr",
        {},
        element("th", { scope: "row" }, this.heads.name(index)),
        ...numbers.map((number) => element("td", {}, number)),
      );
    });
    this.table.replaceChildren(
      element(
        "table",
        {},
        element("thead", {}, element("tr", {}, ...top)),
        element("tbody", {}, ...rows),
      ),
    );
  }
}

function picture(width, words, height = ROW) {
  const role = words ? { role: "img", "aria-label": words } : {};
  return shape("svg", { viewBox: `0 0 ${width} ${height}`, width, height, ...role });
}

function line(kind, x, y1, y2) {
  return shape("line", { class: kind, x1: x, x2: x, y1, y2 });
}

function label(x, words) {
  return shape("text", { x, y: 14, "text-anchor": "middle" }, words);
}

export default {
  render({ model, el, signal }) {
    new Ranking(model, el, signal);
  },
};
