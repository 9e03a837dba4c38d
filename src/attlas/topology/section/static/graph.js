// The attention graph of one head in one text: tokens in a circle, an edge where either attends to
// the other with at least the threshold's weight; connected components and independent cycles at
// every threshold, compared with uniform attention. Data as graph.py gives it.
import { element, menu, shape } from "attlas/dom.js";
import { onChange } from "attlas/model.js";

const LOWEST = 0.001; // of the slider
const CHART = 92;
const MOST = 200; // rows of a table

function bytes(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

function decimal(value, places = 2) {
  return value.toFixed(places).replace("-", "−");
}

// A threshold in at most four digits; it is compared as weights are, in single precision.
export function written(threshold) {
  return String(Number(threshold.toPrecision(3)));
}

// Components of tokens that are joined one edge at a time.
export class Components {
  constructor(n) {
    this.of = Int32Array.from({ length: n }, (_, token) => token);
    this.count = n;
  }
  root(token) {
    while (this.of[token] !== token) {
      this.of[token] = this.of[this.of[token]];
      token = this.of[token];
    }
    return token;
  }
  join(one, other) {
    const [first, second] = [this.root(one), this.root(other)];
    if (first === second) return;
    this.of[first] = second;
    this.count -= 1;
  }
}

// A graph with edges, heaviest first, and the components after each of them.
export class Graph {
  constructor(n, pairs, weights, least) {
    Object.assign(this, { n, pairs, weights, least });
    const joined = new Components(n);
    this.after = Int32Array.from(weights, (_, edge) => {
      joined.join(pairs[2 * edge], pairs[2 * edge + 1]);
      return joined.count;
    });
  }

  // How many edges have at least the threshold's weight.
  edges(threshold) {
    const least = Math.fround(threshold);
    let [low, high] = [0, this.weights.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.weights[middle] >= least) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  // Connected components and independent cycles, loops included.
  betti(threshold) {
    const edges = this.edges(threshold);
    const components = edges ? this.after[edges - 1] : this.n;
    return [components, edges - this.n + components];
  }
}

export function unpackGraph({ pairs, weights, least }, n) {
  const raw = bytes(weights);
  const view = new DataView(raw.buffer);
  const numbers = Float32Array.from({ length: raw.length / 4 }, (_, at) =>
    view.getFloat32(4 * at, true),
  );
  return new Graph(n, bytes(pairs), numbers, least);
}

// The graph of uniform attention over the keys that each query sees.
export function uniformGraph(seen) {
  const n = seen.length;
  const share = seen.map(([from, to]) => Math.fround(1 / (to - from + 1)));
  const edges = [];
  const sees = (query, key) => seen[query][0] <= key && key <= seen[query][1];
  for (let one = 0; one < n; one++) {
    for (let other = one; other < n; other++) {
      const weight = Math.max(
        sees(one, other) ? share[one] : 0,
        sees(other, one) ? share[other] : 0,
      );
      if (weight > 0) edges.push([weight, one, other]);
    }
  }
  edges.sort((left, right) => right[0] - left[0]);
  const pairs = edges.flatMap(([, one, other]) => [one, other]);
  return new Graph(n, pairs, edges.map(([weight]) => weight), 0);
}

function shortened(word, most = 12) {
  return word.length > most ? word.slice(0, most - 1) + "…" : word;
}

function table(titles, rows) {
  const head = element("tr", {}, ...titles.map((one) => element("th", { scope: "col" }, one)));
  const lines = rows.map(([first, ...cells]) =>
    element(
      "tr",
      {},
      element("th", { scope: "row", dir: "auto" }, first),
      ...cells.map((cell) => element("td", { dir: "auto" }, cell)),
    ),
  );
  return element("table", {}, element("thead", {}, head), element("tbody", {}, ...lines));
}

// The place in the circle in the middle between two tokens, on their shorter side.
function bend(one, other, n) {
  return (one + other) / 2 + (other - one > n / 2 ? n / 2 : 0);
}

// One of the two curves: a number at every threshold, and that of uniform attention in grey.
class Curve {
  constructor(title, which, view) {
    Object.assign(this, { title, which, view });
    this.node = element("div", { class: "curve" });
  }

  draw(width) {
    const { graph, control, threshold, low } = this.view;
    const left = 44;
    const right = width - 10;
    const x = (value) =>
      left + ((right - left) * Math.log(value / low)) / Math.log(1 / low);
    const steps = Array.from({ length: 121 }, (_, at) => low * (1 / low) ** (at / 120));
    const own = steps.map((one) => graph.betti(one)[this.which]);
    const even = control ? steps.map((one) => control.betti(one)[this.which]) : [];
    const top = Math.max(1, ...own, ...even);
    const y = (value) => 22 + CHART * (1 - value / top);
    const path = (values, name) => {
      const points = values.map((value, at) => {
        const [across, down] = [x(steps[at]).toFixed(1), y(value).toFixed(1)];
        return at ? `H${across}V${down}` : `M${across} ${down}`;
      });
      return shape("path", { d: points.join(""), class: name });
    };
    const at = x(threshold);
    const [value, uniform] = [graph, control].map((one) => one?.betti(threshold)[this.which]);
    const more = uniform === undefined ? "" : `, uniform attention ${uniform}`;
    const label = `${this.title} at threshold ${written(threshold)}: ${value}${more}`;
    const tick = (where, words) =>
      shape("text", { x: x(where), y: CHART + 38, "text-anchor": "middle", class: "tick" }, words);
    const ticks = [0.01, 0.1, 1].filter((one) => one >= low * 0.999);
    const begin = x(ticks[0]) - left > 46 ? [low] : [];
    const near = (where, words, name) => {
      const end = at > right - 40; // no room to the right of the threshold
      const place = { x: end ? at - 7 : at + 7, "text-anchor": end ? "end" : "start" };
      return shape("text", { ...place, y: where, class: name }, words);
    };
    const values = [near(Math.min(y(value) - 7, y(0) - 7), value, "tick chosen")];
    const isApart = control && Math.abs(y(uniform) - y(value)) > 26;
    if (isApart) values.push(near(y(uniform) + 14, uniform, "tick"));
    const height = CHART + 44;
    const svg = shape("svg", { width, height, role: "img", "aria-label": label });
    svg.append(
      shape("text", { x: 0, y: 12, class: "name" }, this.title),
      shape("text", { x: left - 5, y: y(top) + 4, "text-anchor": "end", class: "tick" }, top),
      shape("text", { x: left - 5, y: y(0) + 4, "text-anchor": "end", class: "tick" }, "0"),
      shape("path", { d: `M${left} ${y(0)}H${right}`, class: "rule" }),
      ...[...begin, ...ticks].map((one) => tick(one, written(one))),
      ...(control ? [path(even, "control")] : []),
      path(own, "own"),
      shape("path", { d: `M${at} 22V${y(0)}`, class: "at" }),
      shape("circle", { cx: at, cy: y(value), r: 4, class: "at" }),
      ...values,
    );
    this.node.replaceChildren(svg);
  }
}

// The tokens in a circle with the edges of the graph at the threshold.
class Circle {
  constructor(view) {
    this.view = view;
    this.node = element("div", { class: "circle" });
  }

  draw(size) {
    const { text, graph, threshold, token } = this.view;
    const n = text.tokens.length;
    const middle = size / 2;
    const narrow = size < 420;
    const radius = middle - (narrow ? 62 : 84);
    const angle = (one) => (2 * Math.PI * (one + 0.5)) / n - Math.PI / 2;
    const point = (one, far = radius) => [
      middle + far * Math.cos(angle(one)),
      middle + far * Math.sin(angle(one)),
    ];
    const focused = this.node.contains(document.activeElement);
    const svg = shape("svg", {
      width: size,
      height: size,
      role: "listbox",
      "aria-label": "tokens in a circle, joined by the graph's edges; arrow keys choose a token",
    });
    const edges = graph.edges(threshold);
    const joined = new Components(n);
    const degree = new Int32Array(n);
    for (let edge = 0; edge < edges; edge++) {
      const [one, other] = [graph.pairs[2 * edge], graph.pairs[2 * edge + 1]];
      joined.join(one, other);
      if (one !== other) degree[one] += 1;
      if (one !== other) degree[other] += 1;
    }
    const lines = [[], []];
    for (let edge = edges - 1; edge >= 0; edge--) {
      const [one, other] = [graph.pairs[2 * edge], graph.pairs[2 * edge + 1]];
      const mine = token === one || token === other;
      const width = 0.8 + 3 * graph.weights[edge];
      const name = mine ? "edge chosen" : "edge";
      const loop = one === other;
      const [x, y] = point(one, loop ? radius + 8 : radius);
      const [toX, toY] = point(other);
      const apart = Math.min(other - one, n - other + one) / (n / 2);
      const [byX, byY] = point(bend(one, other, n), radius * (1 - apart));
      lines[Number(mine)].push(
        loop
          ? shape("circle", { cx: x, cy: y, r: 6, class: name, "stroke-width": width })
          : shape("path", {
              d: `M${x} ${y}Q${byX} ${byY} ${toX} ${toY}`,
              class: name,
              "stroke-width": width,
            }),
      );
    }
    svg.append(...lines.flat());
    for (let one = 0; one < n; one++) {
      svg.append(this.token(one, point(one), angle(one), { middle, radius, n, narrow, degree }));
    }
    this.node.replaceChildren(svg);
    if (focused) this.node.querySelector('[tabindex="0"]')?.focus();
  }

  token(one, [x, y], angle, { middle, radius, n, narrow, degree }) {
    const { text, token } = this.view;
    const far = Math.cos(angle) < 0;
    const turn = `translate(${middle} ${middle}) rotate(${(angle * 180) / Math.PI})`;
    const node = shape("g", {
      role: "option",
      tabindex: one === Math.max(token, 0) ? 0 : -1,
      "data-token": one,
      "aria-selected": String(one === token),
      "aria-label": this.view.about(one),
    });
    const room = (2 * Math.PI * radius) / n;
    const label = shape(
      "text",
      {
        transform: `${turn} translate(${radius + 18} 0) rotate(${far ? 180 : 0})`,
        "text-anchor": far ? "end" : "start",
        dy: "0.35em",
        class: one === token ? "name chosen" : "name",
      },
      room > 9 || one === token || one % Math.ceil(10 / room) === 0
        ? shortened(text.tokens[one], narrow ? 7 : 11)
        : "",
    );
    const wide = Math.max(room, 6);
    const target = shape("rect", {
      x: radius - 12,
      y: -wide / 2,
      width: narrow ? 74 : 96,
      height: wide,
      transform: turn,
      class: "target",
    });
    const kind = degree[one] ? "vertex" : "vertex alone";
    node.append(target, shape("circle", { cx: x, cy: y, r: 4, class: kind }), label);
    return node;
  }
}

class GraphView {
  constructor(model, data) {
    this.model = model;
    this.data = data;
    this.number = data.first;
    this.token = -1;
    this.threshold = data.usual;
    this.unpacked = new Map();
    this.circle = new Circle(this);
    this.curves = [
      new Curve("connected components", 0, this),
      new Curve("independent cycles", 1, this),
    ];
    this.status = element("p", { class: "readout", role: "status", "aria-live": "polite" });
    this.note = element("p", { class: "note" });
    this.tables = element("div", { class: "table", hidden: true, tabindex: 0, role: "region" });
    this.tables.setAttribute("aria-label", "numbers");
  }

  get item() {
    return this.data.graphs[this.number];
  }

  get text() {
    return this.data.texts[this.item.text];
  }

  // The lowest threshold at which the graph is complete.
  get low() {
    return Math.max(LOWEST, this.item.least);
  }

  get graph() {
    if (!this.unpacked.has(this.number)) {
      this.unpacked.set(this.number, unpackGraph(this.item, this.text.tokens.length));
    }
    return this.unpacked.get(this.number);
  }

  get control() {
    const { seen } = this.text;
    if (!seen) return null;
    const key = "uniform" + this.item.text;
    if (!this.unpacked.has(key)) this.unpacked.set(key, uniformGraph(seen));
    return this.unpacked.get(key);
  }

  render(el) {
    el.classList.add("attlas-graph");
    const several = new Set(this.data.texts.map((one) => one.text)).size > 1;
    const names = this.data.graphs.map(({ head, text }, number) => [
      number,
      several ? `${head} · ${this.data.texts[text].text}` : head,
    ]);
    const heads = menu("head", "head", names);
    this.heads = heads.select;
    this.slider = element("input", { type: "range", min: 0, max: 1000, class: "slider" });
    this.slider.setAttribute("aria-label", "threshold");
    this.exact = element("input", { type: "number", min: 0, max: 1, step: "any" });
    this.exact.dataset.choose = "threshold";
    this.marks = element("span", { class: "marks" });
    const button = element("button", { type: "button", "aria-expanded": "false" }, "Show as table");
    button.addEventListener("click", () => {
      this.tables.hidden = !this.tables.hidden;
      button.setAttribute("aria-expanded", String(!this.tables.hidden));
      button.textContent = this.tables.hidden ? "Show as table" : "Hide table";
      this.fillTable();
    });
    this.heads.addEventListener("change", () => {
      this.show(Number(this.heads.value));
      this.share("head", this.item.head);
    });
    this.slider.addEventListener("input", () => {
      const share = Number(this.slider.value) / 1000;
      this.set(Number((this.low * (1 / this.low) ** share).toPrecision(3)));
    });
    this.exact.addEventListener("change", () => this.set(Number(this.exact.value)));
    const threshold = element("label", {}, "threshold ", this.exact);
    const swatches = [
      ["own", "this head"],
      ["control", "uniform attention"],
      ["at", "the threshold"],
    ].map(([name, words]) =>
      element("span", { class: "mark" }, element("i", { class: name }), words),
    );
    this.key = element("div", { class: "key" }, ...swatches);
    const curves = element("div", { class: "curves" }, ...this.curves.map((one) => one.node));
    this.side = element("div", { class: "side" }, this.key, curves);
    el.replaceChildren(
      element("div", { class: "controls" }, heads.label, threshold, button),
      element("div", { class: "controls" }, this.slider, this.marks),
      this.status,
      element("div", { class: "both" }, this.circle.node, this.side),
      this.note,
      this.tables,
    );
    this.circle.node.addEventListener("click", (event) => {
      const node = event.target.closest("[data-token]");
      if (node) this.choose(Number(node.dataset.token));
    });
    this.circle.node.addEventListener("keydown", (event) => this.press(event));
    new ResizeObserver(() => this.draw()).observe(el);
    this.el = el;
    this.follow();
    this.show(this.number);
  }

  share(name, value) {
    this.model.set(name, value);
    this.model.save_changes();
  }

  // Another graph, at the same threshold if it is complete there.
  show(number) {
    this.number = number;
    this.heads.value = String(number);
    this.token = Math.min(this.token, this.text.tokens.length - 1);
    const known = this.data.thresholds.filter((one) => one >= this.low);
    this.marks.replaceChildren(
      ...known.map((one) => {
        const mark = element("button", { type: "button", "data-threshold": one }, written(one));
        mark.addEventListener("click", () => this.set(one));
        return mark;
      }),
    );
    this.note.textContent = this.about_graph();
    this.key.querySelector("span:nth-child(2)").hidden = !this.control;
    this.set(this.threshold, false);
  }

  about_graph() {
    const least = this.item.least;
    const loops = "A token that attends to itself has a loop, which counts as a cycle.";
    const control = this.control
      ? ""
      : " There is no control: which tokens each query sees is not known.";
    if (least <= LOWEST) return loops + control;
    const from = `the graph is complete from ${decimal(least, 3)} up, where the slider begins`;
    return `${loops} ${this.data.kept}: ${from}.${control}`;
  }

  set(threshold, shared = true) {
    if (!Number.isFinite(threshold)) return;
    if (shared) this.share("threshold", threshold);
    this.threshold = Math.max(this.low, Math.min(1, threshold));
    const share = Math.log(this.threshold / this.low) / Math.log(1 / this.low);
    this.slider.value = String(Math.round(1000 * share));
    this.slider.setAttribute("aria-valuetext", written(this.threshold));
    this.exact.value = written(this.threshold);
    this.tell();
    this.draw();
    this.fillTable();
  }

  tell() {
    const { graph, control, threshold } = this;
    const [components, cycles] = graph.betti(threshold);
    const even = control?.betti(threshold);
    const uniform = (value) => (even ? ` (uniform attention ${value})` : "");
    const counted = (value, name) => `${value} ${name}${value === 1 ? "" : "s"}`;
    const whole =
      `${this.item.head} at threshold ${written(threshold)}: ` +
      `${counted(components, "connected component")}${uniform(even?.[0])}, ` +
      `${counted(cycles, "independent cycle")}${uniform(even?.[1])}; ` +
      `${counted(graph.edges(threshold), "edge")}, ${counted(graph.n, "token")}.`;
    const chosen = this.token >= 0 ? ` ${this.about(this.token)}.` : "";
    this.status.textContent = whole + chosen;
  }

  // What a token is joined with at the threshold.
  about(token) {
    const { graph, threshold, text } = this;
    const with_ = [];
    let loop = "";
    for (let edge = 0; edge < graph.edges(threshold); edge++) {
      const [one, other] = [graph.pairs[2 * edge], graph.pairs[2 * edge + 1]];
      if (one !== token && other !== token) continue;
      const weight = decimal(graph.weights[edge]);
      if (one === other) loop = `, a loop of ${weight}`;
      else with_.push(`${text.tokens[one === token ? other : one]} ${weight}`);
    }
    const some = with_.slice(0, 4).join(", ") + (with_.length > 4 ? ", ..." : "");
    const joined = with_.length ? `joined with ${with_.length}: ${some}` : "joined with no other";
    return `“${text.tokens[token]}” (token ${token}) is ${joined}${loop}`;
  }

  draw() {
    const width = this.el.clientWidth;
    if (!width) return;
    const wide = width >= 760;
    const size = Math.max(240, Math.min(560, wide ? width * 0.56 : width));
    this.el.classList.toggle("wide", wide);
    this.circle.draw(size);
    for (const curve of this.curves) curve.draw(wide ? Math.min(420, width - size - 24) : width);
  }

  choose(token) {
    this.token = token === this.token ? -1 : token;
    this.tell();
    this.draw();
    this.circle.node.querySelector(`[data-token="${token}"]`)?.focus();
    const { words, text } = this.text;
    if (words) this.share("selection", { text, words: this.token < 0 ? [] : [words[token]] });
  }

  press(event) {
    const n = this.text.tokens.length;
    const at = Number(event.target.closest("[data-token]")?.dataset.token ?? 0);
    const moves = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
    moves.Home = -at;
    moves.End = n - 1 - at;
    if (event.key === "Escape") this.choose(this.token);
    else if (event.key === " " || event.key === "Enter") this.choose(at);
    else if (event.key in moves) {
      const next = (at + moves[event.key] + n) % n;
      this.token = -1;
      this.choose(next);
    } else return;
    event.preventDefault();
  }

  fillTable() {
    if (this.tables.hidden) return this.tables.replaceChildren();
    const { graph, control, data, low, threshold, text } = this;
    const at = [...new Set([threshold, ...data.thresholds.filter((one) => one >= low)])];
    at.sort((a, b) => a - b);
    const numbers = at.map((one) => {
      const even = control ? control.betti(one) : ["–", "–"];
      const own = graph.betti(one);
      return [written(one), own[0], even[0], own[1], even[1]].map(String);
    });
    const titles = ["threshold", "components", "uniform", "cycles", "uniform"];
    const edges = Math.min(graph.edges(threshold), MOST);
    const rows = Array.from({ length: edges }, (_, edge) => [
      text.tokens[graph.pairs[2 * edge]],
      text.tokens[graph.pairs[2 * edge + 1]],
      decimal(graph.weights[edge], 3),
    ]);
    this.tables.replaceChildren(table(titles, numbers), table(["token", "token", "weight"], rows));
  }

  follow() {
    const head = this.model.get("head");
    const number = this.data.graphs.findIndex((one) => one.head === head);
    if (number >= 0 && number !== this.number) this.show(number);
    const threshold = this.model.get("threshold");
    if (Number.isFinite(threshold) && threshold !== this.threshold) this.set(threshold, false);
    const selection = this.model.get("selection");
    const { words, text } = this.text;
    if (!words || selection?.text !== text) return;
    const token = selection.words.length ? words.indexOf(selection.words.at(-1)) : -1;
    const same = token < 0 ? this.token < 0 : words[this.token] === words[token];
    if (same) return;
    this.token = token;
    this.tell();
    this.draw();
  }
}

export default {
  render({ model, el, signal }) {
    const view = new GraphView(model, model.get("data"));
    view.render(el);
    for (const name of ["head", "threshold", "selection"]) {
      onChange(model, name, () => view.follow(), signal);
    }
  },
};
