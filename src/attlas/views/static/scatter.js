// All heads by two columns, one dot each; dashed lines are the controls. A dot, or an arrow key,
// chooses a head.
import { onTheme, theme } from "attlas/colour.js";
import { element, menu, shape } from "attlas/dom.js";
import { Chosen, Heads } from "attlas/head_columns.js";
import { columnRows, foldedTable } from "attlas/head_table.js";
import { axis, known, ticks } from "attlas/numbers.js";

const HEIGHT = 300;
const LEFT = 40;
const BOTTOM = 34;
const TOP = 20;
const RIGHT = 14;

class Scatter {
  constructor(model, el, signal) {
    this.el = el;
    this.heads = new Heads(model.get("data"), el.dataset);
    this.chosen = new Chosen(model, this.heads, signal, {
      onHead: () => this.draw(),
      onColumn: () => this.follow(),
    });
    const names = [...this.heads.columns.keys()];
    this.y = this.chosen.column.name;
    const across = [model.get("across"), this.heads.second, names.at(-1)];
    this.x = across.find((one) => names.includes(one));
    const options = this.heads.options();
    this.menus = ["y", "x"].map((axis) => {
      const one = menu(axis === "y" ? "↑" : "→", axis, options);
      one.select.setAttribute("aria-label", axis === "y" ? "Upwards" : "To the right");
      one.select.addEventListener("change", () => this.choose(axis, one.select.value));
      return one;
    });
    this.place = element("div", { class: "place" });
    this.read = element("p", { class: "read", role: "status", "aria-live": "off" });
    this.table = foldedTable(() => columnRows(this.heads, this.columns));
    el.classList.add("attlas-scatter");
    const controls = element("div", { class: "controls" }, ...this.menus.map((one) => one.label));
    el.replaceChildren(controls, this.place, this.read, this.table.fold);
    el.addEventListener("focusin", () => this.read.setAttribute("aria-live", "polite"));
    el.addEventListener("focusout", () => this.read.setAttribute("aria-live", "off"));
    const observer = new ResizeObserver(() => this.resize());
    observer.observe(el);
    signal?.addEventListener("abort", () => observer.disconnect());
    onTheme(() => (el.style.colorScheme = theme()), signal);
    el.style.colorScheme = theme();
    this.resize();
  }

  choose(axis, name) {
    this[axis] = name;
    if (axis === "y") this.chosen.chooseColumn(name);
    else this.chosen.share("across", name);
    this.draw();
  }

  follow() {
    this.y = this.chosen.column.name;
    this.draw();
  }

  resize() {
    const width = Math.max(240, Math.min(560, this.el.clientWidth || 400));
    if (width === this.width) return;
    this.width = width;
    this.draw();
  }

  // The columns upwards and to the right.
  get columns() {
    return [this.y, this.x].map((name) => this.heads.columns.get(name));
  }

  draw() {
    const [y, x] = this.columns;
    this.menus.forEach((one, index) => (one.select.value = [this.y, this.x][index]));
    const focused = this.place.contains(document.activeElement);
    const across = scale(x, LEFT, this.width - RIGHT);
    const up = scale(y, HEIGHT - BOTTOM, TOP);
    const svg = shape("svg", {
      viewBox: `0 0 ${this.width} ${HEIGHT}`,
      width: this.width,
      height: HEIGHT,
      tabindex: 0,
      role: "application",
      "aria-label": `${y.label} by ${x.label}, one dot per head; left and right arrow keys move`,
    });
    this.axes(svg, across, up, x, y);
    const points = [];
    for (let index = 0; index < this.heads.count; index++) {
      const [h, v] = [x.values[index], y.values[index]];
      if (known(h) && known(v)) points.push({ index, cx: across.at(h), cy: up.at(v) });
    }
    this.order = points.sort((a, b) => a.cx - b.cx).map(({ index }) => index);
    for (const { index, cx, cy } of points) {
      if (index !== this.chosen.head) svg.append(this.dot(index, cx, cy, "value"));
    }
    const chosen = points.find(({ index }) => index === this.chosen.head);
    if (chosen) this.mark(svg, chosen);
    svg.addEventListener("keydown", (event) => this.pressed(event));
    this.place.replaceChildren(svg);
    if (focused) svg.focus({ preventScroll: true });
    this.say(x, y);
    this.table.draw();
  }

  axes(svg, across, up, x, y) {
    const [left, right, bottom] = [LEFT, this.width - RIGHT, HEIGHT - BOTTOM];
    for (const value of across.ticks) {
      const at = across.at(value);
      svg.append(line("rule", at, TOP, at, bottom));
      svg.append(words(at, bottom + 14, axis(value), "middle"));
    }
    for (const value of up.ticks) {
      const at = up.at(value);
      svg.append(line("rule", left, at, right, at));
      svg.append(words(left - 5, at + 4, axis(value), "end"));
    }
    svg.append(words(0, 11, `↑ ${y.label}`, "start", "title"));
    svg.append(words(right, HEIGHT - 4, `${x.label} →`, "end", "title"));
    if (known(x.constant)) {
      const at = across.at(x.constant);
      svg.append(line("control", at, TOP, at, bottom));
    }
    if (known(y.constant)) {
      const at = up.at(y.constant);
      svg.append(line("control", left, at, right, at));
    }
  }

  dot(index, cx, cy, kind) {
    const dot = shape("circle", { cx, cy, r: kind === "chosen" ? 5 : 4.2, class: kind });
    dot.append(shape("title", {}, this.heads.name(index)));
    dot.addEventListener("click", () =>
      this.chosen.choose(index === this.chosen.head ? -1 : index),
    );
    return dot;
  }

  mark(svg, { index, cx, cy }) {
    const end = cx > this.width - 60;
    const name = this.heads.name(index);
    svg.append(
      this.dot(index, cx, cy, "chosen"),
      words(cx + (end ? -8 : 8), cy < 34 ? cy + 14 : cy - 7, name, end ? "end" : "start", "name"),
    );
  }

  say(x, y) {
    const head = this.chosen.head;
    const dashed = [x, y].filter((one) => known(one.constant)).map((one) => one.control);
    const note = dashed.length ? ` (dashed: ${[...new Set(dashed)].join(", ")})` : "";
    const name = head < 0 ? "Mean of all heads" : this.heads.name(head);
    this.read.replaceChildren(
      element("b", {}, name),
      ` ${this.heads.says(y, head)}; ${this.heads.says(x, head)}${note}`,
    );
  }

  pressed(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (event.key === "Escape") this.chosen.choose(-1);
    else if (step) {
      const at = this.order.indexOf(this.chosen.head);
      const next = at < 0 ? 0 : at + step;
      if (next >= 0 && next < this.order.length) this.chosen.choose(this.order[next]);
    } else return;
    event.preventDefault();
  }
}

function scale(column, from, to) {
  const numbers = [...column.values, column.constant].filter(known);
  let [low, high] = [Math.min(0, ...numbers), Math.max(...numbers)];
  if (!(high > low)) high = low + 1;
  const at = (value) => from + ((value - low) / (high - low)) * (to - from);
  return { at, ticks: ticks(low, high, 5) };
}

function line(kind, x1, y1, x2, y2) {
  return shape("line", { class: kind, x1, y1, x2, y2 });
}

function words(x, y, text, anchor, kind) {
  return shape("text", { x, y, "text-anchor": anchor, class: kind }, text);
}

export default {
  render({ model, el, signal }) {
    new Scatter(model, el, signal);
  },
};
