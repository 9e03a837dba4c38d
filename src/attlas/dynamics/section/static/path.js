// Kinds of tokens along training in one plane, polarity across and attention score up: a path for
// each kind to the epoch of the slider, hollow before training. Data as path.py gives it.
import { element, menu, shape } from "attlas/dom.js";

const EDGE = { left: 56, right: 70, top: 26, bottom: 40 };
const PAUSE = 700; // milliseconds of an epoch while it plays

function decimal(value) {
  const written = value !== 0 && Math.abs(value) < 0.005 ? value.toPrecision(1) : value.toFixed(2);
  return written.replace("-", "−");
}

// The ends of an axis on which zero is, from all epochs, so that it stays.
export function ends(values) {
  const known = values.filter((one) => one !== null);
  const [low, high] = [Math.min(0, ...known), Math.max(0, ...known)];
  return high > low ? [low, high] : [-1, 1];
}

class PathView {
  constructor(model, data) {
    this.model = model;
    this.data = data;
    this.number = 0;
    this.hidden = new Set();
    this.timer = 0;
    this.plane = element("div", { class: "plane" });
    this.status = element("p", { class: "readout", role: "status", "aria-live": "polite" });
    this.kinds = element("fieldset", {}, element("legend", {}, "tokens"));
    this.numbers = element("div", { class: "table", hidden: true, tabindex: 0, role: "region" });
    this.numbers.setAttribute("aria-label", "numbers");
  }

  get path() {
    return this.data[this.number];
  }

  get epochs() {
    return this.path.kinds[0].epoch;
  }

  render(el) {
    this.el = el;
    el.classList.add("attlas-path");
    const top = element("div", { class: "controls" });
    if (this.data.length > 1) {
      const options = this.data.map((one, number) => [number, one.name]);
      const { select, label } = menu("classifier", "classifier", options);
      select.addEventListener("change", () => this.show(Number(select.value)));
      top.append(label);
    }
    this.slider = element("input", { type: "range", min: 0, "aria-label": "epoch" });
    this.slider.addEventListener("input", () => {
      this.stop();
      this.draw();
    });
    this.play = element("button", { type: "button" }, "Play");
    this.play.addEventListener("click", () => (this.timer ? this.stop() : this.start()));
    this.play.hidden = Boolean(
      globalThis.matchMedia?.("(prefers-reduced-motion: reduce)").matches,
    );
    const button = element("button", { type: "button", "aria-expanded": "false" }, "Show as table");
    button.addEventListener("click", () => {
      this.numbers.hidden = !this.numbers.hidden;
      button.setAttribute("aria-expanded", String(!this.numbers.hidden));
      button.textContent = this.numbers.hidden ? "Show as table" : "Hide table";
      this.fill();
    });
    top.append(this.kinds, button);
    const where = element("div", { class: "controls" }, this.play, this.slider);
    el.replaceChildren(top, where, this.status, this.plane, this.numbers);
    new ResizeObserver(() => this.draw()).observe(this.plane);
    this.show(0);
  }

  show(number) {
    this.stop();
    this.number = number;
    this.hidden.clear();
    this.slider.max = this.epochs.length - 1;
    this.slider.value = this.slider.max;
    const boxes = this.path.kinds.map(({ kind }) => {
      const box = element("input", { type: "checkbox", checked: true });
      box.addEventListener("change", () => {
        if (box.checked) this.hidden.delete(kind);
        else this.hidden.add(kind);
        this.draw();
        this.fill();
      });
      return element("label", {}, box, " ", kind);
    });
    this.kinds.replaceChildren(element("legend", {}, "tokens"), ...boxes);
    this.draw();
    this.fill();
  }

  start() {
    if (Number(this.slider.value) >= this.epochs.length - 1) this.slider.value = 0;
    this.play.textContent = "Pause";
    this.draw();
    this.timer = setInterval(() => {
      this.slider.value = Number(this.slider.value) + 1;
      this.draw();
      if (Number(this.slider.value) >= this.epochs.length - 1 || !this.el.isConnected) this.stop();
    }, PAUSE);
  }

  stop() {
    clearInterval(this.timer);
    this.timer = 0;
    this.play.textContent = "Play";
  }

  get shown() {
    return this.path.kinds.filter(({ kind }) => !this.hidden.has(kind));
  }

  tell(at) {
    const parts = this.shown.map((one) => {
      const place = `polarity ${decimal(one.polarity[at])}, `;
      return `${one.kind} ${place}attention score ${decimal(one.attention_score[at])}`;
    });
    const epoch = this.epochs[at];
    const when = epoch === 0 ? "Before training (random weights)" : `Epoch ${epoch}`;
    this.slider.setAttribute("aria-valuetext", when);
    this.status.textContent = `${when}: ${parts.join("; ") || "no tokens chosen"}.`;
  }

  draw() {
    const width = Math.min(this.plane.clientWidth, 760);
    const at = Number(this.slider.value);
    this.tell(at);
    if (!width) return;
    const height = Math.round(Math.max(240, width * 0.55));
    const { kinds } = this.path;
    const [left, right] = ends(kinds.flatMap((one) => one.polarity));
    const [low, high] = ends(kinds.flatMap((one) => one.attention_score));
    const x = (value) =>
      EDGE.left + ((width - EDGE.left - EDGE.right) * (value - left)) / (right - left);
    const y = (value) =>
      height - EDGE.bottom - ((height - EDGE.top - EDGE.bottom) * (value - low)) / (high - low);
    const svg = shape("svg", { width, height, role: "img", "aria-label": this.status.textContent });
    const text = (given, words) => shape("text", given, words);
    svg.append(
      shape("path", { d: `M${x(0)} ${EDGE.top}V${height - EDGE.bottom}`, class: "rule" }),
      shape("path", { d: `M${EDGE.left} ${y(0)}H${width - EDGE.right}`, class: "rule" }),
      text({ x: 0, y: 12 }, "attention score (mean)"),
      text({ x: width - EDGE.right, y: height - 6, "text-anchor": "end" }, "polarity (mean)"),
      ...[...new Set([left, 0, right])].map((one) =>
        text({ x: x(one), y: height - 22, "text-anchor": "middle" }, decimal(one)),
      ),
      ...[...new Set([low, 0, high])].map((one) =>
        text({ x: EDGE.left - 6, y: y(one) + 4, "text-anchor": "end" }, decimal(one)),
      ),
    );
    for (const one of this.shown) svg.append(this.kind(one, at, x, y));
    this.plane.replaceChildren(svg);
  }

  // The path of a kind, and the middle half of its tokens at the epoch, as far as the plane goes.
  kind(one, at, x, y) {
    const isKnown = ["positive", "negative", "neutral"].includes(one.kind);
    const group = shape("g", { class: isKnown ? `kind ${one.kind}` : "kind" });
    if (!isKnown) group.style.setProperty("--kind", one.colour);
    const points = one.polarity.map((value, epoch) => [x(value), y(one.attention_score[epoch])]);
    const line = (some) => "M" + some.map((point) => point.join(" ")).join("L");
    const [here, there] = points[at];
    group.append(
      shape("path", { d: line(points), class: "faint" }),
      shape("path", { d: line(points.slice(0, at + 1)), class: "done" }),
      shape("circle", { cx: points[0][0], cy: points[0][1], r: 3.5, class: "start" }),
      shape("circle", { cx: here, cy: there, r: 5, class: at ? "now" : "start" }),
      shape("text", { x: here + 9, y: there - 7, class: "name" }, one.kind),
    );
    return group;
  }

  fill() {
    if (this.numbers.hidden) return this.numbers.replaceChildren();
    const titles = ["tokens", "epoch", "polarity", "middle half"];
    titles.push("attention score", "middle half");
    const half = (one, name, at) =>
      `${decimal(one[name + "_low"][at])} to ${decimal(one[name + "_high"][at])}`;
    const rows = this.shown.flatMap((one) =>
      one.epoch.map((epoch, at) => [
        one.kind,
        String(epoch),
        decimal(one.polarity[at]),
        half(one, "polarity", at),
        decimal(one.attention_score[at]),
        half(one, "attention", at),
      ]),
    );
    const head = titles.map((title) => element("th", { scope: "col" }, title));
    const lines = rows.map(([first, ...cells]) => {
      const name = element("th", { scope: "row", dir: "auto" }, first);
      return element("tr", {}, name, ...cells.map((cell) => element("td", {}, cell)));
    });
    const body = [element("thead", {}, element("tr", {}, ...head))];
    body.push(element("tbody", {}, ...lines));
    this.numbers.replaceChildren(element("table", {}, ...body));
  }
}

export default {
  render({ model, el, signal }) {
    const view = new PathView(model, model.get("data"));
    view.render(el);
    signal?.addEventListener("abort", () => view.stop());
  },
};
