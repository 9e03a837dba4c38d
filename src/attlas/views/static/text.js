// A text with its words tinted against their own baselines: attention received, what the selected
// words attend to, what attends to them, or attribution. Data: overlay.py and text_rows.py.
import { colour, ink, onTheme, theme } from "attlas/colour.js";
import { element, menu } from "attlas/dom.js";
import { showPanels } from "attlas/lines.js";
import { fixed, largest, showLists } from "attlas/lists.js";
import { minimap } from "attlas/minimap.js";
import { onChange } from "attlas/model.js";
import { readText } from "attlas/rows.js";
import { seamWords } from "attlas/seams.js";

const STEPS = 24; // of a tint
const SAME = 1.0005; // a ratio that rounding may make of 1
const CUT = 1000; // characters shown of what was not read
const WINDOW = 20; // words with lines
const PANELS = 4;
const ROWS = 2000; // of a table
const THRESHOLDS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5];
const TITLES = {
  received: "attention received",
  attends: "attends to",
  attended: "attended by",
  score: "attribution",
};

// Tints 0 to STEPS by value / uniform of each word, on a log scale: none at or below 1; the darkest
// is the largest of a word that is not special, but for one in a hundred, and at least 2.
export function tintsAbove(values, uniform, isSpecial) {
  const sizes = Float64Array.from(values, (value, unit) =>
    uniform[unit] > 0 && value > SAME * uniform[unit] ? Math.log2(value / uniform[unit]) : 0,
  );
  const top = Math.max(1, nearLargest(sizes, isSpecial));
  const tints = Int8Array.from(sizes, (size) =>
    size > 0 ? Math.max(1, Math.round(Math.min(1, size / top) * STEPS)) : 0,
  );
  return { tints, most: 2 ** top };
}

function nearLargest(sizes, isSpecial) {
  const ordinary = sizes.filter((_, unit) => !isSpecial(unit)).sort();
  return ordinary.length ? ordinary[ordinary.length - 1 - Math.floor(ordinary.length / 100)] : 0;
}

// Tints of scores, with their sign if they have one.
export function tintsOf(values, isSpecial) {
  const top = nearLargest(Float64Array.from(values, Math.abs), isSpecial) || 1;
  const tints = Int8Array.from(values, (value) =>
    Math.round(Math.max(-1, Math.min(1, value / top)) * STEPS),
  );
  return { tints, most: top };
}

const scored = (value) => {
  const small = Math.abs(value) < 0.0005 && value !== 0;
  const written = small ? value.toExponential(1) : value.toFixed(3);
  return value > 0 ? `+${written}` : written.replace(/^-/, "\u2212");
};
const plural = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;

// Two or more choices of which one is pressed.
function switchOf(label, name, options, choose) {
  const place = element("span", { class: "switch", role: "group", "aria-label": label });
  const buttons = options.map(([value, words]) => {
    const button = element("button", { type: "button", [`data-${name}`]: value }, words);
    button.addEventListener("click", () => choose(value));
    place.append(button);
    return [value, button];
  });
  const press = (value) => {
    for (const [own, button] of buttons) button.setAttribute("aria-pressed", own === value);
  };
  return { place, press, buttons: new Map(buttons) };
}

class TextView {
  constructor(text, model, el) {
    Object.assign(this, { text, model, el, data: text.data });
    this.units = text.words;
    this.by = this.data.received ? "received" : "score";
    this.view = "";
    this.method = 0;
    this.chosen = [];
    this.focus = 0;
    this.tables = new Set();
    this.asked = new Set(); // rows of the largest weights, of a host
    this.threshold = 0.05;
    this.follows = "follows" in el.dataset; // the controls of another text
    this.build();
  }
  build() {
    const { el } = this;
    el.classList.add("attlas-text");
    this.words = element("div", {
      class: "passage",
      role: "listbox",
      "aria-multiselectable": "true",
      dir: "auto",
    });
    this.map = element("div", { class: "map", "aria-hidden": "true" });
    this.said = element("p", { class: "said says", role: "status", "aria-live": "polite" });
    this.legend = element("div", { class: "legend key" });
    this.table = element("div", { class: "table" });
    this.side = element("div", { class: "side" });
    this.lines = element("div", { class: "lines attlas-lines" });
    const body = element("div", { class: "text-body" }, this.map, this.words);
    const [bar, toggle] = [this.bar(), this.tableButton("words")];
    const below = element("div", { class: "below" }, this.said, toggle);
    this.main = element("div", { class: "text-main" }, body, below, this.table);
    el.replaceChildren(...(this.follows ? [] : [bar]), this.main, this.side, this.lines);
    if (this.follows) below.append(this.legend);
    this.buildLines();
    this.buildWords();
    this.words.addEventListener("mousedown", (event) => {
      if (event.shiftKey) event.preventDefault(); // adds words, selects no letters
    });
    this.words.addEventListener("click", (event) => this.click(event));
    this.words.addEventListener("keydown", (event) => this.key(event));
    this.words.addEventListener("focusin", ({ target }) => {
      const unit = target.at;
      if (unit !== undefined) this.focusOn(unit, false);
    });
  }
  // Controls: what tints, of which head, words or tokens; and the legend.
  bar() {
    const place = element("div", { class: "bar-of-choices" });
    const kinds = ["received"];
    if (this.text.hasRows) kinds.push("attends", "attended");
    if (this.data.methods) kinds.push("score");
    if (!this.data.received) kinds.shift();
    this.kinds = kinds;
    const tints = kinds.map((one) => [one, TITLES[one]]);
    this.tint = switchOf("tint by", "tint", tints, (by) => this.share({ tint: by }));
    const tint = element("span", { class: "choice" }, "tint by", this.tint.place);
    if (kinds.length > 1) place.append(tint);
    if (this.data.methods) place.append(this.methodMenu());
    if (this.data.received) place.append(this.headMenu());
    this.level = switchOf(
      "units",
      "units",
      [["words", "words"], ["tokens", "tokens"]],
      (name) => this.share({ units: name }),
    );
    place.append(this.level.place);
    if (this.text.causal) place.append(this.sinkSwitch());
    place.append(this.legend);
    return place;
  }
  // In a decoder most attention goes to the first token: without it, words differ in tint.
  sinkSwitch() {
    const ways = [["out", "left out"], ["in", "counted"]];
    this.sink = switchOf("first token", "sink", ways, (way) => this.share({ sink: way }));
    return element("span", { class: "choice" }, "first token", this.sink.place);
  }
  get leavesSink() {
    const side = this.by === "received" || this.by === "attends";
    return side && this.text.causal && this.model.get("sink") !== "in";
  }
  // Shares of what all words but the first receive, against their shares in uniform attention.
  withoutSink({ values, uniform }) {
    const first = this.units.of[0];
    const sum = (all) => all.reduce((total, one, unit) => total + (unit === first ? 0 : one), 0);
    const scale = sum(uniform) / sum(values);
    if (!Number.isFinite(scale)) return { values, uniform };
    return { values: values.map((one, unit) => (unit === first ? 0 : one * scale)), uniform };
  }
  // What the page, or a notebook, keeps: all texts of a page follow it, and its address has it.
  share(values) {
    for (const [name, value] of Object.entries(values)) this.model.set(name, value);
    this.model.save_changes();
  }
  // Shows the text as it was chosen here, in another text, or in the address.
  restore() {
    const [tint, units, method] = ["tint", "units", "method"].map((name) => this.model.get(name));
    if (this.kinds.includes(tint)) this.by = tint;
    if (this.data.methods?.[method] !== undefined) {
      this.method = method;
      this.methodSelect.value = String(method);
    }
    if (["words", "tokens"].includes(units)) this.setUnits(units);
    this.setView(this.model.get("head") || this.model.get("view") || "");
  }
  methodMenu() {
    const { select, label } = menu(
      "method",
      "method",
      this.data.methods.map((name, at) => [at, name.replaceAll("_", " ")]),
    );
    this.methodSelect = select;
    select.addEventListener("change", () => {
      this.share({ method: Number(select.value), tint: "score" });
    });
    return label;
  }
  headMenu() {
    const { layers, heads } = this.text;
    const means = [["", this.data.averaged ? "mean of all layers" : "mean of all heads"]];
    if (this.data.importance) means.push(["scaled", "weighted by importance"]);
    const groups = { means };
    const number = (count) => Array.from({ length: count }, (_, at) => at);
    const ofLayers = number(layers).map((one) => [`L${one}`, `L${one}, mean`]);
    if (layers * heads > 1) groups.layers = ofLayers;
    for (const layer of heads > 1 ? number(layers) : []) {
      groups[`L${layer}`] = number(heads).map((head) => [`L${layer}H${head}`, `L${layer}H${head}`]);
    }
    const { select, label } = menu("of", "head", groups);
    this.headSelect = select;
    select.addEventListener("change", () => {
      const view = select.value;
      const isHead = view.includes("H");
      this.share({ head: isHead ? view : "", view: isHead || !view ? null : view });
    });
    return label;
  }
  setView(view) {
    if (this.data.received && this.text.has(view)) {
      this.view = this.data.averaged ? view.replace(/H\d+$/, "") : view;
      this.headSelect.value = this.view;
      this.askForWords();
    }
    this.retint();
    this.showSelection();
  }
  // A host sends the largest weights of a view for its lines, and exact rows of selected words.
  askFor(view) {
    const rows = this.text.missing(view).filter((row) => !this.asked.has(row));
    for (const row of this.model.send ? rows : []) {
      this.asked.add(row);
      this.model.send({ kind: "tops", text: this.data.id, row });
    }
  }
  askForWords() {
    if (!this.model.send || !this.text.hasRows) return;
    const { view } = this;
    for (const word of this.text.missingWords(view, this.rowChosen())) {
      this.model.send({ kind: "word", text: this.data.id, view, word });
    }
  }
  async hear({ kind, text, data, view, word } = {}, buffers = []) {
    if (text !== this.data.id) return;
    if (kind === "tops") await this.text.addRow(data);
    if (kind === "tops") this.drawLines();
    if (kind !== "word") return;
    this.text.addWord(view, word, buffers[0]);
    if (view !== this.view || this.text.missingWords(view, this.rowChosen()).length) return;
    this.retint();
    this.showSelection();
  }
  // Words, or tokens, as elements; what is selected stays selected.
  setUnits(name) {
    if (this.units.name === name) return;
    const old = this.units;
    const tokens = this.chosen.flatMap((unit) => [...old.tokens(unit)]);
    this.units = this.text[name];
    this.chosen = [...new Set(tokens.map((token) => this.units.of[token]))].sort((a, b) => a - b);
    this.focus = this.units.of[old.tokens(this.focus)[0]];
    this.buildWords();
    this.retint();
    this.showSelection();
  }
  buildWords() {
    const { units, text } = this;
    const parts = document.createDocumentFragment();
    let cursor = 0;
    this.nodes = [];
    for (let unit = 0; unit < units.count; unit++) {
      const special = units.special.get(unit);
      const node = document.createElement("w");
      node.setAttribute("role", "option");
      node.setAttribute("aria-selected", "false");
      node.at = unit;
      if (special !== undefined) {
        node.className = "mark";
        node.dir = "ltr"; // it does not decide in which direction the text is read
        node.textContent = special;
      } else {
        const [start, stop] = [Math.max(units.spans[2 * unit], cursor), units.spans[2 * unit + 1]];
        if (start > cursor) parts.append(text.slice(cursor, start));
        node.textContent = text.slice(start, Math.max(start, stop));
        cursor = Math.max(cursor, stop);
      }
      this.nodes.push(node);
      parts.append(node);
    }
    parts.append(...rest(text.slice(cursor, Infinity)));
    this.words.replaceChildren(parts);
    this.words.setAttribute("aria-label", `text, ${plural(units.count, units.name.slice(0, -1))}`);
    this.nodes[this.focus]?.setAttribute("tabindex", 0);
    this.drawn = new Int8Array(units.count);
    this.marked = [];
    this.map.replaceChildren();
    this.overview = minimap(this.map, this.words, this.nodes, {
      colourOf: (unit) => (this.drawn[unit] ? this.palette[this.drawn[unit] + STEPS][0] : null),
      isChosen: (unit) => this.chosen.includes(unit),
      marks: (this.data.seams ?? []).map((token) => units.of[token]),
    });
    this.level.press(units.name);
  }
  // The numbers that tint: values with their own uniform attention, or scores.
  numbers() {
    const { text, units, by, view } = this;
    if (by === "score") return { values: text.score(this.method, units), uniform: null };
    if (by === "received") {
      return { values: text.received(view, units), uniform: text.uniform(view, units) };
    }
    const row = text.row(by === "attends" ? 0 : 1, view, text.rowUnits(units), this.rowChosen());
    return text.rowUnits(units) === units ? row : spread(row, text.words, units);
  }
  // The selection in the units in which rows are known.
  rowChosen() {
    const { text, units, chosen } = this;
    const rows = text.rowUnits(units);
    if (rows === units) return chosen;
    const of = (unit) => [...units.tokens(unit)].map((token) => rows.of[token]);
    return [...new Set(chosen.flatMap(of))];
  }
  rowOf(unit) {
    return this.text.rowUnits(this.units).of[this.units.tokens(unit)[0]];
  }
  get ask() {
    if (this.follows) return "";
    return ASK[this.text.hasRows ? "rows" : this.data.methods ? "scores" : "plain"];
  }
  get signed() {
    return this.by === "score" && Boolean(this.data.signed[this.method]);
  }
  retint() {
    const isSpecial = (unit) => this.units.special.has(unit);
    this.shown = this.numbers();
    const { values, uniform } = this.leavesSink ? this.withoutSink(this.shown) : this.shown;
    const { tints, most } = uniform
      ? tintsAbove(values, uniform, isSpecial)
      : tintsOf(values, isSpecial);
    const signed = this.signed;
    if (!this.palette || signed !== this.paletteSigned) this.setPalette(signed);
    tints.forEach((tint, unit) => {
      if (tint !== this.drawn[unit]) this.colourNode(unit, tint);
    });
    this.overview.draw();
    this.tint.press(this.by);
    this.sink?.press(this.model.get("sink") === "in" ? "in" : "out");
    this.showLegend(most);
    this.showTable();
  }
  setPalette(signed) {
    this.paletteSigned = signed;
    this.palette = Array.from({ length: 2 * STEPS + 1 }, (_, at) => {
      const rgb = colour((at - STEPS) / STEPS, signed);
      return [`rgb(${rgb.join(" ")})`, ink(rgb)];
    });
    this.drawn.forEach((tint, unit) => tint && this.colourNode(unit, tint));
  }
  colourNode(unit, tint) {
    const [ground, letters] = tint ? this.palette[tint + STEPS] : ["", ""];
    this.nodes[unit].style.background = ground;
    this.nodes[unit].style.color = letters;
    this.drawn[unit] = tint;
  }
  showLegend(most) {
    const signed = this.signed;
    const bar = element("canvas", { width: 96, height: 1, "aria-hidden": "true" });
    const pen = bar.getContext("2d");
    for (let x = 0; x < 96; x++) {
      const shade = signed ? (x - 47.5) / 47.5 : x / 95;
      pen.fillStyle = `rgb(${colour(shade, signed).join(" ")})`;
      pen.fillRect(x, 0, 1, 1);
    }
    const ratio = (value) => `×${value.toFixed(1)}`;
    const ratios = ["▲ ×1, own uniform", ratio(Math.sqrt(most)), ratio(most)];
    if (this.follows) ratios.splice(0, 2, "▲ ×1");
    const ends = this.follows
      ? [scored(-most), "0", scored(most)]
      : [`opposes ${scored(-most)}`, "0", `supports ${scored(most)}`];
    const plain = ["0 (no control)", "", scored(most)];
    const ticks = this.by !== "score" ? ratios : signed ? ends : plain;
    const row = element("div", {}, ...ticks.map((one) => element("span", {}, one)));
    const left = this.leavesSink ? "without the first token, shares of the rest; " : "";
    const never = "no tint at or below uniform attention; log scale";
    const scale = this.by === "score" ? "" : left + never;
    const own = this.data.averaged && this.view ? titleOf(this.view) : ""; // it has no single heads
    const note = this.follows ? own : scale;
    const seams = element("span", { class: "seams" }, seamWords(this.data.seams ?? []));
    this.legend.replaceChildren(bar, row, element("span", {}, note), seams);
  }
  click(event) {
    const node = event.target.closest?.("w");
    if (!node) return;
    const unit = node.at;
    this.focusOn(unit, true);
    this.choose(unit, event.shiftKey || event.ctrlKey || event.metaKey);
  }
  choose(unit, more) {
    const was = this.chosen.includes(unit);
    const others = more ? this.chosen.filter((one) => one !== unit) : [];
    this.select(was && (more || this.chosen.length === 1) ? others : [...others, unit]);
  }
  select(units, shared = true) {
    this.chosen = [...units].sort((a, b) => a - b);
    if (shared) {
      const { id } = this.data;
      const of = (unit) => [...this.units.tokens(unit)].map((token) => this.text.words.of[token]);
      const words = [...new Set(this.chosen.flatMap(of))];
      const spans = words.map((word) => this.text.words.span(word)).filter(([start]) => start >= 0);
      this.shared = JSON.stringify([words, spans]);
      this.model.set("selection", { text: id, words, spans });
      this.model.save_changes();
    }
    this.askForWords();
    if (this.by === "attends" || this.by === "attended") this.retint();
    this.showSelection();
    this.overview.draw();
  }
  // A selection of another view of this text: its words, or the characters of phrases.
  follow() {
    const { text, words, spans } = this.model.get("selection") ?? {};
    const shared = JSON.stringify([words, spans]);
    if (text !== this.data.id || !words || shared === this.shared) return;
    this.shared = shared;
    const all = words.length || !spans ? words : this.text.words.within(spans);
    const known = all.filter((word) => word < this.text.words.count);
    const of = (word) => [...this.text.words.tokens(word)].map((token) => this.units.of[token]);
    this.select([...new Set(known.flatMap(of))], false);
    if (known.length) this.reveal(this.chosen[0]);
  }
  reveal(unit) {
    const [node, words] = [this.nodes[unit], this.words];
    const top = node.offsetTop - words.offsetTop;
    if (top < words.scrollTop || top + 40 > words.scrollTop + words.clientHeight) {
      words.scrollTop = top - words.clientHeight / 3;
    }
  }
  focusOn(unit, move) {
    if (unit !== this.focus) this.nodes[this.focus]?.removeAttribute("tabindex");
    this.focus = unit;
    this.nodes[unit].setAttribute("tabindex", 0);
    if (move) this.nodes[unit].focus({ preventScroll: true });
    this.say();
  }
  jump(unit) {
    const own = this.text.rowUnits(this.units) === this.units;
    const to = own ? unit : this.units.of[this.text.words.tokens(unit)[0]];
    this.reveal(to);
    this.focusOn(to, true);
  }
  key(event) {
    if (event.key === "Escape") return this.select([]);
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      return this.choose(this.focus, event.shiftKey || event.ctrlKey || event.metaKey);
    }
    const next = this.next(event.key);
    if (next === null) return undefined;
    event.preventDefault();
    this.focusOn(next, true);
    return this.reveal(next);
  }
  next(key) {
    const last = this.units.count - 1;
    const back = getComputedStyle(this.nodes[this.focus]).direction === "rtl" ? 1 : -1;
    const moves = {
      ArrowLeft: () => this.focus + back,
      ArrowRight: () => this.focus - back,
      ArrowUp: () => this.lineFrom(-1),
      ArrowDown: () => this.lineFrom(1),
      Home: () => 0,
      End: () => last,
    };
    return moves[key] ? Math.min(last, Math.max(0, moves[key]())) : null;
  }
  // The word above or below: the next line, and there the one that stands nearest.
  lineFrom(way) {
    const { offsetLeft: left, offsetTop: top } = this.nodes[this.focus];
    let best = this.focus;
    let line = null;
    for (let unit = this.focus + way; unit >= 0 && unit < this.units.count; unit += way) {
      const node = this.nodes[unit];
      if (Math.abs(node.offsetTop - top) < 8) continue;
      line ??= node.offsetTop;
      if (Math.abs(node.offsetTop - line) >= 8) break;
      const away = (one) => Math.abs(this.nodes[one].offsetLeft - left);
      if (best === this.focus || away(unit) < away(best)) best = unit;
    }
    return best;
  }
  // One word in numbers: value, control, ratio; or its scores.
  describe(unit) {
    const { units, shown } = this;
    const pieces = units.name === "words" ? `, ${plural(units.size(unit), "token")}` : "";
    const place = `${units.name.slice(0, -1)} ${unit + 1} of ${units.count.toLocaleString("en")}`;
    const start = `“${units.string(unit)}” (${place}${pieces})`;
    if (this.by === "score") return `${start}: ${this.scoresOf([unit])}`;
    const [value, even] = [shown.values[unit], shown.uniform[unit]];
    if (this.by !== "received" && !this.chosen.length) return `${start}. ${this.ask}`;
    const verb = { received: "receives", attends: "is given", attended: "gives" }[this.by];
    return `${start}: ${verb} ${fixed(value)}, own uniform ${fixed(even)}${times(value, even)}`;
  }
  scoresOf(chosen) {
    return this.data.methods
      .map((name, method) => {
        const values = this.text.score(method, this.units);
        const sum = chosen.reduce((all, unit) => all + values[unit], 0);
        const rank = chosen.length === 1 ? this.rank(values, chosen[0]) : "";
        return `${name.replaceAll("_", " ")} ${scored(sum)}${rank}`;
      })
      .join(", ");
  }
  rank(values, unit) {
    if (this.units.special.has(unit)) return "";
    const above = values.filter(
      (value, one) => !this.units.special.has(one) && Math.abs(value) > Math.abs(values[unit]),
    );
    return ` (rank ${above.length + 1})`;
  }
  say() {
    const inside = this.words.contains(document.activeElement);
    if (inside || this.chosen.length === 1) {
      this.said.textContent = this.describe(inside ? this.focus : this.chosen[0]);
    } else this.said.textContent = this.chosen.length ? this.summary() : this.ask;
  }
  // The selection summed.
  summary() {
    const { text, units, chosen } = this;
    const sum = (values) => chosen.reduce((all, unit) => all + values[unit], 0);
    const parts = [];
    if (this.data.received) {
      const received = sum(text.received(this.view, units));
      const even = sum(text.uniform(this.view, units));
      const verb = chosen.length > 1 ? "received together" : "received";
      const own = chosen.length > 1 ? "their own uniform" : "own uniform";
      parts.push(`${verb} ${fixed(received)}, ${own} ${fixed(even)}${times(received, even)}`);
    }
    if (this.data.methods) parts.push(this.scoresOf(chosen));
    return parts.join("; ");
  }
  showSelection() {
    const { chosen, nodes, units } = this;
    const mark = (unit, is) => {
      nodes[unit]?.setAttribute("aria-selected", is);
      nodes[unit]?.classList.toggle("chosen", is);
    };
    for (const unit of this.marked) mark(unit, false);
    for (const unit of chosen) mark(unit, true);
    this.marked = chosen;
    this.say();
    const lists = element("div", { class: "lists" });
    if (!chosen.length) {
      const ask = this.text.hasRows ? `${this.ask} ${MORE}` : "";
      this.side.replaceChildren(element("p", { class: "note" }, ask));
    } else {
      this.side.replaceChildren(this.chips());
      const sum = element("p", { class: "sum" }, this.summary());
      if (this.text.hasRows || chosen.length > 1) this.side.append(sum, lists);
      if (this.text.hasRows) this.showRows(lists);
    }
    this.drawLines();
  }
  chips() {
    const { chosen, units } = this;
    const chips = chosen.slice(0, 5).map((unit) => {
      const name = units.string(unit);
      const label = { type: "button", class: "chip", dir: "auto", "aria-label": `remove ${name}` };
      const chip = element("button", label, `${name} ${unit + 1} ×`);
      chip.addEventListener("click", () => this.choose(unit, true));
      return chip;
    });
    if (chosen.length > 5) chips.push(element("span", {}, `and ${chosen.length - 5} more`));
    const clear = element("button", { type: "button", class: "link" }, "clear");
    clear.addEventListener("click", () => this.select([]));
    const head = element("h3", {}, plural(chosen.length, units.name.slice(0, -1)));
    return element("div", { class: "chips" }, head, ...chips, clear);
  }
  showRows(place) {
    const units = this.text.rowUnits(this.units);
    const chosen = this.rowChosen();
    if (this.text.missingWords(this.view, chosen).length && this.model.send) {
      place.append(element("p", { class: "note", role: "status" }, `Reading ${this.view} …`));
      return;
    }
    const rows = [0, 1].map((side) => this.text.row(side, this.view, units, chosen));
    showLists(place, rows, units, (unit) => this.jump(unit));
    const isExact = chosen.every((unit) => this.text.exact.has(`${this.view} ${unit}`));
    const tops = isExact ? null : this.text.tops;
    const rounding = tops ? `, rounded by at most ${(100 * tops.error).toFixed(1)}%` : "";
    const of = tops ? `The ${tops.ranks} largest weights of each word${rounding}. ` : "";
    const means = "Means of the selection as query, sums as key. Grey tick: uniform attention.";
    place.after(element("p", { class: "note" }, of + means));
  }
  tableButton(name) {
    const button = element("button", { type: "button", class: "link" }, "Show as table");
    button.setAttribute("aria-pressed", "false");
    button.addEventListener("click", () => {
      const on = !this.tables.has(name);
      if (on) this.tables.add(name);
      else this.tables.delete(name);
      button.setAttribute("aria-pressed", on);
      if (name === "words") this.showTable();
      else this.drawLines();
    });
    return button;
  }
  showTable() {
    this.table.hidden = !this.tables.has("words");
    if (this.table.hidden) return;
    const { units, shown } = this;
    const titles = shown.uniform ? ["value", "own uniform", "ratio"] : ["score"];
    const cell = (value) => element("td", { class: "number" }, value);
    const rows = Array.from({ length: Math.min(units.count, ROWS) }, (_, unit) => {
      const [value, even] = [shown.values[unit], shown.uniform?.[unit]];
      const ratio = even > 0 ? (value / even).toFixed(2) : "-";
      const numbers = shown.uniform ? [value.toFixed(3), even.toFixed(3), ratio] : [scored(value)];
      const head = element("th", { scope: "row", dir: "auto" }, units.string(unit));
      return element("tr", {}, head, cell(String(unit + 1)), ...numbers.map(cell));
    });
    const head = ["word", "", ...titles].map((one) => element("th", { scope: "col" }, one));
    const top = element("thead", {}, element("tr", {}, ...head));
    this.table.replaceChildren(element("table", {}, top, element("tbody", {}, ...rows)));
  }
  buildLines() {
    this.lines.hidden = !(this.data.lines && this.text.hasRows);
    if (this.lines.hidden) return;
    const options = THRESHOLDS.map((one) => [one, one.toFixed(2)]);
    const { select, label } = menu("weights from", "threshold", options);
    select.value = this.threshold;
    select.addEventListener("change", () => {
      this.threshold = Number(select.value);
      this.drawLines();
    });
    this.panels = element("div", { class: "panels" });
    this.linesNote = element("span", { class: "note" });
    const bar = element("div", { class: "choice" }, element("h3", {}, "Lines"), this.linesNote);
    bar.append(label, this.tableButton("lines"));
    if (this.model.send) this.askWhenSeen();
    this.lines.append(bar, this.panels);
  }
  // Rows of several heads are asked for when the lines come into view.
  askWhenSeen() {
    const seen = (entries) => {
      if (!entries.some((one) => one.isIntersecting)) return;
      observer.disconnect();
      this.seen = true;
      this.drawLines();
    };
    const observer = new IntersectionObserver(seen, { rootMargin: "0px 0px -100px" });
    observer.observe(this.lines);
  }
  // Lines between the words around the selection: this view, then heads that are far from uniform.
  drawLines() {
    if (this.lines.hidden) return;
    const units = this.text.rowUnits(this.units);
    const chosen = this.rowChosen();
    const [from, to] = windowOf(units.count, chosen, this.rowOf(this.focus));
    const near = chosen.filter((unit) => unit >= from && unit < to);
    const words = [];
    for (let unit = from; unit < to; unit++) words.push([units.string(unit), near.includes(unit)]);
    const views = [...new Set([this.view, ...this.data.lines])].slice(0, PANELS);
    for (const view of chosen.length || this.seen ? views : [this.view]) this.askFor(view);
    const isMissing = (view) => this.model.send && this.text.missing(view).length;
    const panels = views.map((view) => [
      titleOf(view) + (isMissing(view) ? ": reading …" : ""),
      view === this.view && view.includes("H"),
      this.pairs(view, units, from, to, near),
    ]);
    showPanels(this.panels, words, panels, this.tables.has("lines"));
    const all = units.count.toLocaleString("en");
    const part = to - from < units.count ? `${units.name} ${from + 1} to ${to} of ${all}; ` : "";
    const only = near.length ? "of the selection; " : "";
    this.linesNote.textContent = `${part}${only}left attends to right, above uniform attention`;
  }
  pairs(view, units, from, to, near) {
    const out = [];
    for (let query = from; query < to; query++) {
      const { values, uniform } = this.text.row(0, view, units, [query]);
      for (let key = from; key < to; key++) {
        const touches = !near.length || near.includes(query) || near.includes(key);
        const above = values[key] >= this.threshold && values[key] > uniform[key];
        if (touches && above) out.push([query - from, key - from, values[key], false]);
      }
    }
    return out;
  }
}

const ASK = {
  rows: "Choose a word to see what it attends to and what attends to it.",
  scores: "Choose a word to see its score by every method.",
  plain: "Choose a word to see its number.",
};
const MORE = "Shift-click adds words; Escape clears.";
const NAMES = { "": "mean of all heads", scaled: "weighted by importance" };
const titleOf = (view) => {
  return NAMES[view] ?? (/^L\d+$/.test(view) ? `${view}, mean of its heads` : view);
};
const times = (value, even) =>
  even > 0 ? `: × ${(value / even).toFixed(2)}${value > SAME * even ? "" : " (no tint)"}` : "";

// The words around the one that was chosen last.
function windowOf(count, chosen, last) {
  const size = Math.min(count, WINDOW);
  const centre = chosen.includes(last) ? last : chosen[0];
  const middle = chosen.length ? centre - Math.floor(size / 2) : 0;
  const from = Math.max(0, Math.min(count - size, middle));
  return [from, from + size];
}

// Numbers of words at their tokens, so that the tokens of a word have its ratio.
function spread({ values, uniform, rest: others }, words, units) {
  const at = (all) => Float64Array.from({ length: units.count }, (_, unit) => {
    return all[words.of[units.tokens(unit)[0]]];
  });
  return { values: at(values), uniform: at(uniform), rest: others };
}

// The end of a text that the model did not read.
function rest(string) {
  if (!string.trim()) return [string];
  const letters = [...string];
  const more = letters.length - CUT;
  const cut = element("span", { class: "cut" }, letters.slice(0, CUT).join(""));
  cut.title = "not read by the model";
  return more > 0 ? [cut, ` ... ${plural(more, "more character")}`] : [cut];
}

export default {
  async render({ model, el, signal }) {
    const view = new TextView(await readText(model.get("data")), model, el);
    const themed = () => {
      el.dataset.theme = theme();
      view.setPalette(view.signed);
      view.overview.draw();
      view.retint();
    };
    el.dataset.theme = theme();
    view.restore();
    onTheme(themed, signal);
    for (const name of ["head", "view", "units"]) {
      onChange(model, name, () => view.restore(), signal);
    }
    const tinted = () => {
      view.restore();
      view.say();
    };
    for (const name of ["tint", "method", "sink"]) onChange(model, name, tinted, signal);
    onChange(model, "selection", () => view.follow(), signal);
    const heard = (content, buffers) => view.hear(content, buffers);
    model.on("msg:custom", heard);
    signal?.addEventListener("abort", () => model.off("msg:custom", heard));
    const observer = new ResizeObserver(() => view.overview.resize());
    observer.observe(view.words);
    signal?.addEventListener("abort", () => observer.disconnect());
  },
};
