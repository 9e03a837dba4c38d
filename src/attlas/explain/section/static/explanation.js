// Attention above the words of a text and attribution below, on one axis, and how far they agree
// in this text: a dot on the band of circular shifts. Data as aligned.py gives it.
import { element, menu, shape } from "attlas/dom.js";
import { onChange } from "attlas/model.js";

const ABOVE = 96;
const BELOW = 64;
const LABEL = 18;
const LEFT = 40;
const AXIS = LABEL + ABOVE;
const HEIGHT = AXIS + 8 + BELOW + LABEL;
const MOST = 400; // rows of a table that are made at once

// A number in a sentence: a true minus, small ones with their power of ten.
export function decimal(value, places = 2) {
  if (value === null || !Number.isFinite(value)) return "–";
  const small = value !== 0 && Math.abs(value) < 0.5 / 10 ** places;
  const written = small ? value.toExponential(1) : value.toFixed(places);
  return written.replaceAll("-", "−");
}

function signed(value) {
  return (value > 0 ? "+" : "") + decimal(value, 3);
}

// How many times its own uniform attention each word receives; 0 without any.
export function ratios(row) {
  return row.values.map((value, word) => (row.uniform[word] > 0 ? value / row.uniform[word] : 0));
}

function largest(values, special) {
  let most = 0;
  values.forEach((value, word) => {
    if (!special.has(word)) most = Math.max(most, Math.abs(value));
  });
  return most;
}

function sum(values, words) {
  return words.reduce((total, word) => total + values[word], 0);
}

// What is drawn of a text: ratios and scores of its words, and their scales.
function scaled(text, method) {
  const special = new Set(text.special);
  const row = text.attention[method];
  const received = row ? ratios(row) : text.words.map(() => 0);
  const below = text.attribution;
  return {
    special,
    row,
    received,
    below,
    top: Math.max(2, Math.ceil(largest(received, special))),
    most: (below && largest(below.values, special)) || 1,
  };
}

// Where attribution ranks a word among the words that are not special, from 1.
function rankOf(word, { below, special }) {
  if (special.has(word)) return 0;
  const size = Math.abs(below.values[word]);
  return 1 + below.values.filter((one, at) => !special.has(at) && Math.abs(one) > size).length;
}

// One sentence about the chosen words: value, control, ratio, attribution.
export function describe(text, method, words) {
  const shown = scaled(text, method);
  const { row, below, special } = shown;
  const names = words.slice(0, 4).map((word) => `“${text.words[word]}”`);
  const more = words.length > 4 ? ` and ${words.length - 4} more` : "";
  const one = words.length === 1;
  const place = one ? ` (word ${words[0] + 1} of ${text.words.length.toLocaleString("en")})` : "";
  const parts = [];
  if (row) {
    const value = sum(row.values, words);
    const uniform = sum(row.uniform, words);
    const ratio = uniform > 0 ? `: ×${decimal(value / uniform)}` : "";
    const own = one ? "own uniform" : "their uniform";
    parts.push(`${row.name} ${decimal(value)}, ${own} ${decimal(uniform)}${ratio}`);
  }
  if (below) {
    const value = sum(below.values, words);
    const side = value > 0 ? "supports" : "opposes";
    const toward = below.signed && value !== 0 ? `, ${side} ${text.target}` : "";
    const ordinary = text.words.length - special.size;
    const rank = one && rankOf(words[0], shown);
    const ranked = rank ? ` (rank ${rank} of ${ordinary} by size)` : "";
    const written = below.signed ? signed(value) : decimal(value, 3);
    parts.push(`${below.name} ${written}${toward}${ranked}`);
  }
  return `${names.join(", ")}${more}${place}: ${parts.join("; ")}.`;
}

// Labels of the largest values in a window that do not overlap: [word, x].
function labelled(words, sizes, from, to, place, step, width) {
  const order = [];
  for (let word = from; word < to; word++) {
    if (sizes[word] === Infinity || (sizes[word] > 0 && /[\p{L}\p{N}]/u.test(words[word]))) {
      order.push(word);
    }
  }
  order.sort((a, b) => sizes[b] - sizes[a] || a - b);
  const taken = [];
  const out = [];
  for (const word of order.slice(0, 60)) {
    const half = Math.max(step, 6.6 * shortened(words[word]).length) / 2 + 2;
    const x = Math.max(LEFT + half - 6, Math.min(width - half, place(word)));
    if (taken.some(([low, high]) => x - half < high && x + half > low)) continue;
    taken.push([x - half, x + half]);
    out.push([word, x]);
  }
  return out;
}

function shortened(word) {
  return word.length > 16 ? word.slice(0, 15) + "…" : word;
}

function table(titles, rows) {
  const head = element("tr", {}, ...titles.map((one) => element("th", { scope: "col" }, one)));
  const lines = rows.map(([first, ...cells]) =>
    element(
      "tr",
      {},
      element("th", { scope: "row", dir: "auto" }, first),
      ...cells.map((cell) => element("td", {}, cell)),
    ),
  );
  return element(
    "div",
    { class: "table", tabindex: 0, role: "region", "aria-label": "numbers" },
    element("table", {}, element("thead", {}, head), element("tbody", {}, ...lines)),
  );
}

// A button that shows and hides a table, which is made when it is first shown.
function tableButton(make) {
  const place = element("div", { hidden: true });
  const button = element("button", { type: "button", "aria-expanded": "false" }, "Show as table");
  const fill = () => place.replaceChildren(...(place.hidden ? [] : [make()]));
  button.addEventListener("click", () => {
    place.hidden = !place.hidden;
    button.setAttribute("aria-expanded", String(!place.hidden));
    button.textContent = place.hidden ? "Show as table" : "Hide table";
    fill();
  });
  return { button, place, fill };
}

function wordTable(text, method) {
  const { row, received, below } = scaled(text, method);
  const titles = ["word"];
  if (row) titles.push("attention", "own uniform", "ratio");
  if (below) titles.push(below.name);
  const rows = text.words.slice(0, MOST).map((word, at) => [
    word,
    ...(row ? [row.values[at], row.uniform[at], received[at]].map((one) => decimal(one)) : []),
    ...(below ? [below.signed ? signed(below.values[at]) : decimal(below.values[at], 3)] : []),
  ]);
  const out = table(titles, rows);
  if (text.words.length > MOST) {
    out.append(`The first ${MOST} of ${text.words.length.toLocaleString("en")} words.`);
  }
  return out;
}

class Strip {
  constructor(view) {
    this.view = view;
    this.from = 0;
    this.node = element("div", { class: "strip" });
    this.range = element("input", { type: "range", min: 0, value: 0, "aria-label": "first word" });
    this.where = element("span");
    this.window = element("label", { class: "span" }, this.range, " ", this.where);
    this.range.addEventListener("input", () => {
      this.from = Number(this.range.value);
      this.draw();
    });
    new ResizeObserver(() => this.draw()).observe(this.node);
  }

  // How many words fit, and how wide each is: fingers need 24 pixels.
  fit(width) {
    const count = this.view.text.words.length;
    const least = width < 500 || globalThis.matchMedia?.("(pointer: coarse)").matches ? 24 : 9;
    const fits = Math.max(1, Math.min(count, Math.floor((width - LEFT) / least)));
    return { fits, step: Math.min(48, (width - LEFT) / fits) };
  }

  reveal(word) {
    if (word === undefined || (word >= this.from && word < this.from + this.fits)) return;
    this.from = word - Math.floor(this.fits / 2);
  }

  draw() {
    const width = this.node.clientWidth;
    if (!width) return;
    const { text, method, chosen } = this.view;
    const count = text.words.length;
    Object.assign(this, this.fit(width));
    this.from = Math.max(0, Math.min(this.from, count - this.fits));
    const to = this.from + this.fits;
    this.range.max = count - this.fits;
    this.range.value = this.from;
    this.window.hidden = this.fits >= count;
    const total = count.toLocaleString("en");
    this.where.textContent = `words ${this.from + 1} to ${to} of ${total}`;
    const focused = this.node.contains(document.activeElement);
    const wide = LEFT + this.fits * this.step;
    this.svg = shape("svg", {
      width: wide,
      height: HEIGHT,
      role: "listbox",
      "aria-orientation": "horizontal",
      "aria-multiselectable": "true",
      "aria-label": "words with attention above and attribution below; arrow keys choose",
    });
    const shown = scaled(text, method);
    const ready = chosen.find((word) => word >= this.from && word < to) ?? this.from;
    for (let word = this.from; word < to; word++) {
      this.svg.append(this.word(word, shown, word === ready));
    }
    this.svg.append(...this.scales(shown, wide), ...this.labels(shown, to));
    this.node.replaceChildren(this.svg);
    if (focused) this.svg.querySelector('[tabindex="0"]')?.focus();
  }

  word(word, shown, ready) {
    const { text, method, chosen } = this.view;
    const x = LEFT + (word - this.from) * this.step;
    const gap = this.step > 6 ? 0.8 : 0;
    const bar = (y, height, name) =>
      shape("rect", { x: x + gap, y, width: this.step - 2 * gap, height, class: name });
    const node = shape("g", {
      role: "option",
      tabindex: ready ? 0 : -1,
      "data-word": word,
      "aria-selected": String(chosen.includes(word)),
      "aria-label": describe(text, method, [word]),
    });
    node.append(shape("rect", { x, y: 0, width: this.step, height: HEIGHT, class: "target" }));
    if (shown.row) {
      const up = (ABOVE * Math.min(shown.received[word], shown.top)) / shown.top;
      const grey = Math.min(up, ABOVE / shown.top);
      node.append(bar(AXIS - grey, grey, "control"));
      if (up > grey) node.append(bar(AXIS - up, up - grey, "amount"));
      if (shown.received[word] > shown.top) node.append(bar(AXIS - up + 6, 2, "beyond"));
    }
    if (shown.below) {
      const value = shown.below.values[word];
      const down = BELOW * Math.min(Math.abs(value) / shown.most, 1);
      const name = !shown.below.signed ? "amount" : value > 0 ? "supports" : "opposes";
      node.append(bar(AXIS + 8, down, name));
    }
    return node;
  }

  // The axes, uniform attention as a dashed line, and what the ends of both scales are.
  scales({ row, below, top, most }, wide) {
    const line = (y, name) => shape("path", { d: `M${LEFT} ${y}H${wide}`, class: name });
    const tick = (y, words) =>
      shape("text", { x: LEFT - 5, y: y + 4, "text-anchor": "end", class: "tick" }, words);
    const out = [line(AXIS, "rule"), line(AXIS + 8, "rule")];
    if (row) {
      const one = AXIS - ABOVE / top;
      out.push(line(one, "uniform"), tick(one, "×1"), tick(AXIS - ABOVE, "×" + top));
    }
    if (below) out.push(tick(AXIS + 8 + BELOW, decimal(most, most < 0.1 ? 3 : 2)));
    return out;
  }

  labels(shown, to) {
    const { text, chosen } = this.view;
    const place = (word) => LEFT + (word - this.from + 0.5) * this.step;
    const wide = LEFT + this.fits * this.step;
    const out = [];
    const names = text.words.map((word, at) => {
      const beyond = shown.received[at] > shown.top;
      return beyond ? `${shortened(word)} ×${decimal(shown.received[at], 1)}` : word;
    });
    const put = (words, sizes, y) => {
      const raised = sizes.map((size, word) => (chosen.includes(word) ? Infinity : size));
      for (const [word, x] of labelled(words, raised, this.from, to, place, this.step, wide)) {
        const name = chosen.includes(word) ? "name chosen" : "name";
        const given = { x, y: y(word), "text-anchor": "middle", class: name };
        out.push(shape("text", given, shortened(words[word])));
      }
    };
    const high = (word) => (ABOVE * Math.min(shown.received[word], shown.top)) / shown.top;
    if (shown.row) {
      const above = shown.received.map((size) => Math.max(0, size - 1));
      put(names, above, (word) => AXIS - high(word) - 4);
    }
    if (shown.below) {
      const sizes = shown.below.values.map(Math.abs);
      const low = (word) => BELOW * Math.min(sizes[word] / shown.most, 1) + AXIS + 20;
      put(text.words, sizes, low);
    }
    return out;
  }

  focus(word) {
    this.svg?.querySelector(`[data-word="${word}"]`)?.focus();
  }
}

// A dot for each kind of attention on its band: filled outside of it, hollow inside.
function agreementDots(rows, width) {
  const narrow = width < 520; // names above their rows
  const side = narrow ? 0 : Math.min(270, width * 0.38);
  const last = width - 44;
  const known = rows
    .flatMap((one) => [one.tau, one.low, one.high, one.published, one.published_chance])
    .filter((one) => one !== null);
  const low = Math.min(-0.1, ...known);
  const high = Math.max(0.5, ...known);
  const x = (value) => side + 8 + ((value - low) / (high - low)) * (last - side - 16);
  const step = narrow ? 44 : 28;
  const bottom = rows.length * step;
  const svg = shape("svg", { width, height: bottom + 22, role: "img", class: "agreement" });
  svg.setAttribute("aria-label", rows.map(agreementLine).join(" "));
  for (let tick = Math.ceil(low * 5) / 5; tick <= high + 1e-9; tick += 0.2) {
    svg.append(
      shape("path", { d: `M${x(tick)} 0V${bottom}`, class: "rule" }),
      shape("text", { x: x(tick), y: bottom + 15, "text-anchor": "middle", class: "tick" },
        decimal(Math.abs(tick) < 1e-9 ? 0 : tick, 1)),
    );
  }
  rows.forEach((one, at) => {
    const y = narrow ? at * step + 30 : at * step + step / 2;
    const below = narrow ? y - 13 : y + 4;
    svg.append(shape("text", { x: 0, y: below, class: "name" }, one.left));
    if (one.low !== null) {
      const given = { x: x(one.low), y: y - 8, width: x(one.high) - x(one.low), height: 16 };
      svg.append(shape("rect", { ...given, class: "band" }));
    }
    if (one.published_chance !== null) {
      svg.append(shape("path", { d: `M${x(one.published_chance)} ${y - 9}v18`, class: "other" }));
    }
    if (one.published !== null) {
      svg.append(shape("circle", { cx: x(one.published), cy: y, r: 3.5, class: "other" }));
    }
    if (one.tau !== null) {
      const kind = one.outside ? "outside" : "inside";
      svg.append(shape("circle", { cx: x(one.tau), cy: y, r: 5, class: kind }));
    }
    const value = { x: width - 2, y: y + 4, "text-anchor": "end", class: "name" };
    svg.append(shape("text", value, decimal(one.tau)));
  });
  return svg;
}

function agreementLine(one) {
  const where = one.outside ? "outside" : "not outside";
  const [zeros, chance] = [one.published, one.published_chance].map(decimal);
  const other = `; with masked tokens as zeros ${zeros}, chance ${chance}`;
  return (
    `${one.left}: tau ${decimal(one.tau)}, ${where} the band from ${decimal(one.low)} to ` +
    `${decimal(one.high)} of ${one.shifts} shifts${one.published === null ? "" : other}.`
  );
}

// What the band is made of, and how far it can be trusted.
export function bandNote(rows) {
  const [first] = rows;
  if (first.low === null) return "Fewer than two tokens to compare, or equal scores: no tau.";
  const level = (first.level * 100).toFixed(0);
  const few =
    first.shifts < 39
      ? ` There are only ${first.shifts} shifts, so the band is their whole range ` +
        `(${level}%, not 95%)` +
        (first.level < 0.9 ? ": too few to call a dot outside." : ".")
      : "";
  const several = rows.length > 1 ? " Bands are not corrected for the number of rows." : "";
  return (
    `One text has no confidence interval: the band is where ${level}% of taus fall when ` +
    `attribution is shifted along the ${first.kept} compared tokens.${few}${several}`
  );
}

class AgreementPart {
  constructor(view) {
    this.view = view;
    this.keep = "";
    this.node = element("div", { class: "agree" });
    this.dots = element("div", { class: "dots" });
    new ResizeObserver(() => this.draw()).observe(this.dots);
  }

  get rows() {
    return this.view.text.agreement.filter((one) => one.keep === this.keep);
  }

  // The strictest mask comes first, as in the findings.
  show() {
    const { agreement } = this.view.text;
    this.node.hidden = !agreement.length;
    if (!agreement.length) return;
    const keeps = [...new Set(agreement.map((one) => one.keep))];
    this.keep ??= this.view.model.get("keep");
    if (!keeps.includes(this.keep)) {
      this.keep = keeps.includes("keywords") ? "keywords" : keeps.at(-1);
    }
    const titles = ["method", "tau", "band", "shifts", "masked tokens as zeros", "its chance"];
    this.table = tableButton(() =>
      table(
        titles,
        this.rows.map((one) => [
          one.left,
          decimal(one.tau),
          `${decimal(one.low)} to ${decimal(one.high)}`,
          String(one.shifts),
          decimal(one.published),
          decimal(one.published_chance),
        ]),
      ),
    );
    const head = element(
      "div",
      { class: "controls" },
      element("strong", {}, `Agreement with ${agreement[0].right} in this text`),
    );
    if (keeps.length > 1) {
      const { select, label } = menu("tokens", "keep", keeps.map((one) => [one, one]));
      select.value = this.keep;
      select.addEventListener("change", () => {
        this.keep = select.value;
        this.view.share("keep", this.keep);
        this.fill();
      });
      head.append(label);
    }
    head.append(this.table.button);
    this.note = element("p", { class: "note" });
    const key = agreementKey(agreement.some((one) => one.published !== null));
    this.node.replaceChildren(head, key, this.dots, this.table.place, this.note);
    this.fill();
  }

  fill() {
    this.note.textContent = bandNote(this.rows);
    this.table.fill();
    this.draw();
  }

  draw() {
    const width = this.dots.clientWidth;
    if (width && this.view.text.agreement.length) {
      this.dots.replaceChildren(agreementDots(this.rows, Math.min(width, 760)));
    }
  }
}

function mark(name, words) {
  const sign = shape("svg", { width: 12, height: 12, "aria-hidden": "true" });
  if (name === "band") sign.append(shape("rect", { width: 12, height: 12, class: name }));
  else sign.append(shape("circle", { cx: 6, cy: 6, r: name === "other" ? 3.5 : 5, class: name }));
  return element("span", { class: "mark" }, sign, " " + words);
}

function agreementKey(published) {
  const other = "with masked tokens as zeros (Hou 2022), dashed: its chance";
  return element(
    "div",
    { class: "key" },
    mark("outside", "Kendall's tau outside its band"),
    mark("inside", "not outside"),
    mark("band", "chance: circular shifts"),
    ...(published ? [mark("other", other)] : []),
  );
}

function swatch(name, words) {
  return element("span", { class: "mark" }, element("i", { class: name }), " " + words);
}

function axisKey({ attention, attribution, target }) {
  const key = element("div", { class: "key" });
  if (attention.length) {
    key.append(
      "Up: attention ÷ own uniform attention",
      swatch("control", "up to ×1"),
      swatch("amount", "above ×1"),
    );
  }
  if (attribution) {
    key.append(`Down: ${attribution.name}`);
    if (attribution.signed) {
      key.append(swatch("supports", `supports ${target}`), swatch("opposes", "opposes"));
    } else key.append(swatch("amount", "plain scale: no control"));
  }
  return key;
}

class Explanation {
  constructor(model, texts) {
    this.model = model;
    this.texts = texts;
    this.number = 0;
    const methods = texts[0]?.attention.map((one) => one.name) ?? [];
    this.method = Math.max(0, methods.indexOf(model.get("attention")));
    this.chosen = [];
    this.strip = new Strip(this);
    this.agreement = new AgreementPart(this);
    this.status = element("p", { class: "readout", role: "status", "aria-live": "polite" });
    this.controls = element("div", { class: "controls" });
    this.key = element("div");
    this.table = tableButton(() => wordTable(this.text, this.method));
  }

  get text() {
    return this.texts[this.number];
  }

  render(el) {
    el.classList.add("attlas-explanation");
    if (!this.texts.length) return;
    const { node, window } = this.strip;
    const top = [this.controls, this.key, node, window, this.status, this.table.place];
    el.replaceChildren(...top, this.agreement.node);
    node.addEventListener("click", (event) => {
      const word = event.target.closest("[data-word]");
      if (word) this.click(Number(word.dataset.word), event.shiftKey);
    });
    node.addEventListener("keydown", (event) => this.key_(event));
    this.showText();
    this.follow();
  }

  showText() {
    const parts = [];
    if (this.texts.length > 1) {
      const options = this.texts.map((one, number) => [number, one.title]);
      const { select, label } = menu("text", "text", options);
      select.value = String(this.number);
      select.addEventListener("change", () => {
        this.number = Number(select.value);
        this.chosen = [];
        this.showText();
        this.share("selection", { text: this.text.text, words: [] });
      });
      parts.push(label);
    }
    const { attention } = this.text;
    this.method = Math.min(this.method, Math.max(0, attention.length - 1));
    if (attention.length > 1) {
      const options = attention.map((one, number) => [number, one.name]);
      const { select, label } = menu("attention", "attention", options);
      select.value = String(this.method);
      select.addEventListener("change", () => {
        this.method = Number(select.value);
        this.share("attention", attention[this.method].name);
        this.show();
      });
      parts.push(label);
    }
    this.controls.replaceChildren(...parts, this.table.button);
    this.key.replaceChildren(axisKey(this.text));
    this.strip.from = 0;
    this.show();
    this.agreement.show();
  }

  show() {
    this.strip.draw();
    this.table.fill();
    this.status.textContent = this.chosen.length
      ? describe(this.text, this.method, this.chosen)
      : "Choose words by a click or by the arrow keys; with Shift, several.";
  }

  choose(words) {
    this.chosen = words;
    this.strip.reveal(words.at(-1));
    this.show();
    this.share("selection", { text: this.text.text, words });
  }

  // What the page, or a notebook, keeps: the address of a page has it.
  share(name, value) {
    this.model.set(name, value);
    this.model.save_changes();
  }

  click(word, more) {
    const has = this.chosen.includes(word);
    if (more) this.choose(has ? this.chosen.filter((one) => one !== word) : [...this.chosen, word]);
    else this.choose(has && this.chosen.length === 1 ? [] : [word]);
    this.strip.focus(word);
  }

  key_(event) {
    const last = this.text.words.length - 1;
    const at = Number(event.target.closest("[data-word]")?.dataset.word ?? this.strip.from);
    const page = this.strip.fits;
    const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -page, PageDown: page };
    steps.Home = -at;
    steps.End = last - at;
    if (event.key === "Escape") this.choose([]);
    else if (event.key === " " || event.key === "Enter") this.click(at, event.shiftKey);
    else if (event.key in steps) {
      const word = Math.max(0, Math.min(last, at + steps[event.key]));
      const kept = event.shiftKey ? this.chosen.filter((one) => one !== word) : [];
      this.choose([...kept, word]);
      this.strip.focus(word);
    } else return;
    event.preventDefault();
  }

  // The selection of another view: of one of these texts, or of none.
  follow() {
    const selection = this.model.get("selection");
    const number = this.texts.findIndex((one) => one.text === selection?.text);
    if (number < 0) return;
    const words = selection.words.filter((word) => word < this.texts[number].words.length);
    const moved = number !== this.number;
    if (!moved && JSON.stringify(words) === JSON.stringify(this.chosen)) return;
    this.number = number;
    this.chosen = words;
    if (moved) this.showText();
    this.strip.reveal(words.at(-1));
    this.show();
  }
}

export default {
  render({ model, el, signal }) {
    const view = new Explanation(model, model.get("data"));
    view.render(el);
    onChange(model, "selection", () => view.follow(), signal);
  },
};
