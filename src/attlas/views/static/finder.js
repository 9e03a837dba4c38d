// Which heads have most of the chosen column? A histogram, a threshold, and a ranked list with
// names. Of a column in which low is interesting, the threshold counts from below.
import { onTheme, theme } from "attlas/colour.js";
import { element, shape } from "attlas/dom.js";
import { Chosen, Heads } from "attlas/head_columns.js";
import { decimal, known } from "attlas/numbers.js";

const BINS = 30;
const FEW = 10; // heads of the list that are shown at first
const STEPS = 200; // of the threshold
const HEIGHT = 36;

class Finder {
  constructor(model, el, signal) {
    this.heads = new Heads(model.get("data"), el.dataset);
    this.chosen = new Chosen(model, this.heads, signal, {
      onHead: () => this.drawList(),
      onColumn: () => this.drawColumn(),
    });
    this.el = el;
    this.all = false;
    this.says = element("p", { class: "note", role: "status", "aria-live": "polite" });
    this.bars = element("div", { class: "histogram", "aria-hidden": "true" });
    this.slider = element("input", { type: "range", min: 0, max: STEPS, step: 1 });
    this.slider.addEventListener("input", () => this.drawList());
    this.slider.addEventListener("change", () => {
      this.chosen.share("cut", [this.chosen.column.name, Number(this.slider.value)]);
    });
    this.list = element("div");
    el.classList.add("attlas-finder");
    el.replaceChildren(this.says, this.bars, this.slider, this.list);
    onTheme(() => (el.style.colorScheme = theme()), signal);
    el.style.colorScheme = theme();
    this.drawColumn();
  }

  get below() {
    return this.chosen.column.kind === "below";
  }

  get threshold() {
    return this.low + ((this.high - this.low) * Number(this.slider.value)) / STEPS;
  }

  drawColumn() {
    const column = this.chosen.column;
    const indices = [...column.values.keys()].filter((index) => known(column.values[index]));
    const sign = this.below ? 1 : -1;
    this.ranked = indices.sort((a, b) => sign * (column.values[a] - column.values[b]));
    const values = this.ranked.map((index) => column.values[index]);
    this.low = Math.min(0, ...values);
    this.high = Math.max(...values, this.low + 1e-12);
    const middle = (values[Math.min(values.length - 1, 4)] - this.low) / (this.high - this.low);
    const [name, step] = [this.chosen.model.get("cut")].flat(); // as it was moved on this page
    const moved = name === column.name && Number.isFinite(step);
    this.slider.value = moved ? step : Math.round(middle * STEPS);
    this.slider.setAttribute("aria-label", `Threshold of ${column.label}`);
    this.all = false;
    this.drawBars(values);
    this.drawList();
  }

  drawBars(values) {
    const counts = new Array(BINS).fill(0);
    for (const value of values) {
      const share = (value - this.low) / (this.high - this.low);
      counts[Math.min(BINS - 1, Math.floor(share * BINS))]++;
    }
    const top = Math.max(...counts, 1);
    const svg = shape("svg", { viewBox: `0 0 300 ${HEIGHT}`, preserveAspectRatio: "none" });
    this.rects = counts.map((count, bin) => {
      const height = (count / top) * (HEIGHT - 2) + (count ? 1 : 0);
      const place = { x: 10 * bin + 1, y: HEIGHT - height, width: 8, height };
      const rect = shape("rect", place);
      svg.append(rect);
      return rect;
    });
    this.bars.replaceChildren(svg);
  }

  drawList() {
    const column = this.chosen.column;
    const at = this.threshold;
    const step = (this.high - this.low) / STEPS / 2;
    const inside = (value) => (this.below ? value <= at + step : value >= at - step);
    const count = this.ranked.filter((index) => inside(column.values[index])).length;
    const way = this.below ? "at or below" : "at or above";
    this.says.textContent =
      `${count} of ${this.heads.count} with ${column.label} ` +
      `${way} ${decimal(at, column.small)}` +
      (column.control ? `; grey: ${column.control}` : "");
    this.slider.setAttribute("aria-valuetext", decimal(at, column.small));
    this.slider.classList.toggle("below", this.below);
    this.rects.forEach((rect, bin) => {
      const middle = this.low + ((this.high - this.low) * (bin + 0.5)) / BINS;
      rect.setAttribute("class", inside(middle) ? "in" : "");
    });
    const shown = this.all ? this.ranked : this.ranked.slice(0, FEW);
    const head = this.chosen.head;
    const outside = head >= 0 && !shown.includes(head) && this.ranked.includes(head);
    const rows = [...shown, ...(outside ? [head] : [])];
    const titles = ["head", "value", "", "known for"];
    const top = titles.map((title) => element("th", { scope: "col" }, title));
    const table = element(
      "table",
      {},
      element("thead", {}, element("tr", {}, ...top)),
      element("tbody", {}, ...rows.map((index) => this.row(index, inside(column.values[index])))),
    );
    const rest = this.ranked.length - shown.length;
    const more = element("button", { type: "button", class: "plain" }, "Show all");
    more.addEventListener("click", () => {
      this.all = true;
      this.drawList();
    });
    const left = rest > 0 ? [element("p", { class: "note" }, `${rest} more · `, more)] : [];
    const scroll = element("div", { class: this.all ? "window" : "" }, table);
    this.list.replaceChildren(scroll, ...left);
  }

  row(index, inside) {
    const column = this.chosen.column;
    const name = this.heads.name(index);
    const is = index === this.chosen.head;
    const button = element("button", { type: "button", "aria-pressed": String(is) }, name);
    const row = element(
      "tr",
      { class: [is ? "chosen" : "", inside ? "in" : ""].join(" ").trim() },
      element("th", { scope: "row" }, button),
      element("td", { class: "number" }, decimal(column.values[index], column.small)),
      element("td", { class: "bar" }, this.bar(index)),
      element("td", { class: "name" }, this.heads.names[name] ?? ""),
    );
    row.addEventListener("click", () => {
      this.chosen.choose(is ? -1 : index);
      const buttons = [...this.list.querySelectorAll("button")];
      buttons.find((one) => one.textContent === name)?.focus({ preventScroll: true });
    });
    return row;
  }

  // From zero to the value, and the control as a grey mark.
  bar(index) {
    const column = this.chosen.column;
    const share = (value) => (100 * (value - this.low)) / (this.high - this.low);
    const zero = share(0);
    const end = share(column.values[index]);
    const svg = shape("svg", { viewBox: "0 0 100 12", preserveAspectRatio: "none" });
    const [x, width] = [Math.min(zero, end), Math.abs(end - zero)];
    svg.append(shape("rect", { x, y: 2, width: Math.max(width, 0.6), height: 8 }));
    const control = column.controlOf(index);
    if (known(control)) {
      const place = Math.min(100, Math.max(0, share(control)));
      svg.append(shape("line", { x1: place, x2: place, y1: 0, y2: 12 }));
    }
    return svg;
  }
}

export default {
  render({ model, el, signal }) {
    new Finder(model, el, signal);
  },
};
