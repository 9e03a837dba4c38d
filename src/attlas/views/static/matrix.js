// The weights of one head as a matrix, queries down and keys across, for any number of tokens: the
// whole at the left, a part at the right, what is pointed at in a line below. Data as matrices.py
// packs it. Tints start at the uniform attention of each row.
import { Picture, fitted, pageColours, pixel, round } from "attlas/canvas.js";
import { Tints, scaleOf } from "attlas/codes.js";
import { colour, onTheme, palette, theme } from "attlas/colour.js";
import { element, menu } from "attlas/dom.js";
import { onChange } from "attlas/model.js";
import { inflated } from "attlas/packing.js";
import { seamWords } from "attlas/seams.js";

const SMALL = 48; // tokens that are shown whole, in one picture
const PART = 64; // tokens of the part that is shown first
const CLOSEST = 8; // tokens that can fill a picture
const ROWS = 20; // of the table
const LABEL = 13; // pixels between two labels

// A ratio to two digits: ×4.7, ×1,400.
const times = (value) =>
  "×" + value.toLocaleString("en", { minimumSignificantDigits: 2, maximumSignificantDigits: 2 });
// Three digits, or two of a small weight.
const short = (value) => {
  const written = String(Number(value.toPrecision(value < 0.001 ? 2 : 3)));
  return value && value < 1e-4 ? value.toExponential(1) : written.replace(/^0\./, ".");
};
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

class Matrix {
  constructor(model, el, signal) {
    const data = model.get("data");
    Object.assign(this, { model, el, signal, data, scale: scaleOf(data.floor) });
    this.count = data.tokens.length;
    this.loaded = new Map();
    this.region = { left: 0, top: 0, span: Math.min(this.count, PART) };
    if (this.count <= SMALL) this.region.span = this.count;
    this.restore();
    this.cursor = null; // the cell that the keyboard or a click chose: [query, key]
    this.exact = new Map(); // rows that the host sent, by query
    this.codesFor = new Map(); // heads whose codes the host was asked for
    this.build();
    this.listen();
  }

  build() {
    const { data, el } = this;
    const focus = { tabindex: 0, role: "application", "aria-roledescription": "matrix" };
    this.part = new Picture("part", focus);
    this.whole = new Picture("whole", { role: "img", "aria-hidden": "true" });
    this.title = element("span", { class: "name" });
    this.heads = menu("head", "matrix head", data.heads.map(({ name }) => [name, name]));
    const button = (words, label, run) => {
      const one = element("button", { type: "button", "aria-label": label }, words);
      one.addEventListener("click", run, { signal: this.signal });
      return one;
    };
    this.buttons = [
      button("−", "Zoom out", () => this.zoom(2)),
      button("+", "Zoom in", () => this.zoom(0.5)),
      button("whole", "Show the whole matrix", () => this.show({ left: 0, top: 0, span: 1e9 })),
    ];
    this.says = element("p", { class: "readout", role: "status", "aria-live": "polite" });
    this.legend = element("div", { class: "legend" });
    this.table = element("details", { class: "numbers" }, element("summary", {}, "Show as table"));
    this.note = element("p", { class: "note" });
    this.hint = element("p", { class: "note" });
    this.missing = element("p", { class: "note", hidden: true });
    this.under = element("figcaption", {});
    const chooser = data.heads.length > 1 ? [this.heads.label] : [];
    const small = this.count <= SMALL;
    this.window = element("span", { class: "window" });
    const frame = element("div", { class: "frame" }, this.whole.canvas, this.window);
    this.pictures = element(
      "div",
      { class: small ? "pictures small" : "pictures" },
      ...(small ? [] : [element("figure", {}, this.under, frame)]),
      element("figure", {}, this.part.canvas),
    );
    el.classList.add("attlas-matrix");
    el.replaceChildren(
      element("div", { class: "tools" }, this.title, ...chooser, ...this.buttons),
      this.legend,
      this.missing,
      this.pictures,
      this.says,
      this.hint,
      this.note,
      this.table,
    );
  }

  listen() {
    const { model, signal } = this;
    const on = (node, names, run, options = {}) => {
      for (const name of names) node.addEventListener(name, run, { signal, ...options });
    };
    const canvas = this.part.canvas;
    on(canvas, ["keydown"], (event) => this.key(event));
    on(canvas, ["wheel"], (event) => this.wheel(event), { passive: false });
    on(canvas, ["touchstart", "touchmove"], (event) => this.pinch(event), { passive: false });
    on(canvas, ["touchend", "touchcancel"], () => (this.fingers = null));
    on(canvas, ["pointerdown"], (event) => this.press(event));
    on(canvas, ["pointermove"], (event) => this.point(event));
    on(canvas, ["pointerup", "pointercancel"], (event) => this.release(event));
    on(canvas, ["pointerleave"], () => this.read(this.cursor));
    on(this.whole.canvas, ["pointerdown", "pointermove"], (event) => {
      if (event.buttons) this.jump(event);
    });
    on(this.table, ["toggle"], () => this.fill());
    on(this.heads.select, ["change"], () => {
      model.set("head", this.heads.select.value);
      model.save_changes?.();
      this.choose(this.heads.select.value);
    });
    onChange(model, "head", () => this.choose(model.get("head")), signal);
    onChange(model, "selection", () => this.draw(), signal);
    const heard = (content, buffers) => this.hear(content, buffers);
    model.on("msg:custom", heard);
    signal?.addEventListener("abort", () => model.off("msg:custom", heard));
    onTheme(() => this.paint(), signal);
    const observer = new ResizeObserver(() => this.resize());
    observer.observe(this.el);
    signal?.addEventListener("abort", () => observer.disconnect());
  }

  // The head that the page chose, or the first; its codes are unpacked when it is first seen.
  async choose(name) {
    const names = this.data.heads.map((one) => one.name);
    this.missing.hidden = !name || names.includes(name);
    if (!this.missing.hidden) {
      this.missing.textContent =
        `The page has no matrix of ${name}, only of ${names.join(", ")}; ` +
        `write it with --matrix ${name}.`;
    }
    const named = (head) => this.data.heads.find((one) => one.name === head);
    this.head = named(name) ?? this.head ?? named(this.data.first) ?? this.data.heads[0];
    if (!this.width) return;
    const head = this.head;
    if (!this.loaded.has(head.name)) this.loaded.set(head.name, this.load(head));
    const loaded = await this.loaded.get(head.name);
    if (head !== this.head || this.signal?.aborted) return;
    Object.assign(this, loaded);
    this.exact.clear();
    this.heads.select.value = head.name;
    const size = `${this.count} queries by ${this.count} keys`;
    this.part.canvas.setAttribute("aria-label", `Matrix of ${head.name}: ${size}`);
    this.title.textContent = this.data.heads.length > 1 ? "Matrix of" : `Matrix of ${head.name}`;
    this.paint();
    this.el.dataset.ready = head.name;
  }

  async load(head) {
    if (!head.codes) Object.assign(head, await this.askForCodes(head.name));
    const seen = Array.from({ length: this.count }, (_, row) => head.seen[row] ?? head.seen[0]);
    const codes = await inflated(head.codes);
    const starts = seen.map((keys) => this.scale.code(1 / Math.max(keys, 1)));
    return { codes, seen, tints: new Tints(codes, starts) };
  }

  // A host sends the codes of a head when it is first shown.
  askForCodes(head) {
    return new Promise((resolve) => {
      this.codesFor.set(head, resolve);
      this.model.send({ kind: "codes", text: this.data.text, head });
    });
  }

  resize() {
    const width = Math.floor(this.el.clientWidth);
    if (!width || width === this.width) return;
    const first = !this.width;
    this.width = width;
    if (first) this.choose(this.model.get("head"));
    else this.draw();
  }

  // New colours: of a head, or of a theme.
  paint() {
    if (!this.tints) return;
    const most = this.tints.most;
    this.colours = palette((tint) => Math.max(0, tint - 1) / most);
    this.el.style.colorScheme = theme();
    this.own = pageColours(this.part.canvas);
    this.colours[0] = pixel(this.own.ground);
    this.explain();
    this.draw();
    this.fill();
  }

  explain() {
    const { data } = this;
    const { step, floor, rounding } = this.scale;
    const ratio = (share) => times(Math.exp(this.tints.most * share * step));
    const uniforms = this.seen.map((keys) => 1 / Math.max(keys, 1));
    const [low, high] = [Math.min(...uniforms), Math.max(...uniforms)].map(short);
    const control = low === high ? low : `${low} to ${high}`;
    const stops = Array.from({ length: 9 }, (_, at) => `rgb(${colour(at / 8).join(" ")})`);
    const bar = element("span", { class: "bar" });
    bar.style.background = `linear-gradient(to right, ${stops.join(",")})`;
    const ticks = ["▴ uniform ×1", ratio(0.5), ratio(1)].map((one) => element("span", {}, one));
    const dots = element("span", { class: "dots" });
    this.legend.replaceChildren(
      element("span", { class: "scale" }, bar, element("span", { class: "ticks" }, ...ticks)),
      element(
        "span",
        {},
        `weight relative to uniform attention (1 / keys that the query sees: ${control}), ` +
          "log scale; no tint at or below it",
      ),
      ...(this.tints.masked ? [element("span", {}, dots, " not seen by the query")] : []),
      ...(data.seams?.length ? [element("span", {}, seamWords(data.seams))] : []),
    );
    this.note.textContent =
      `Weights are rounded to ±${(100 * rounding).toFixed(1)}%; below ${floor.toFixed(5)} they ` +
      "are not distinguished." +
      (this.data.total > this.count
        ? ` The first ${this.count.toLocaleString("en")} of ` +
          `${this.data.total.toLocaleString("en")} tokens; --matrix-tokens shows more.`
        : "");
    this.hint.textContent = globalThis.matchMedia?.("(pointer: coarse)").matches
      ? "Tap: select both words. Two fingers: move and zoom."
      : "Click or Enter: select both words. Arrows: next cell. Drag or Shift + arrows: move. " +
        "+, − or the wheel (after a click, or with Ctrl): zoom. 0: all.";
  }

  // ---- what is shown ----

  show({ left, top, span }) {
    span = clamp(span, Math.min(CLOSEST, this.count), this.count);
    left = clamp(left, 0, this.count - span);
    this.region = { left, top: clamp(top, 0, this.count - span), span };
    this.later();
    clearTimeout(this.moving);
    this.moving = setTimeout(() => this.keep(), 300);
  }

  // The part that is shown, as the address of a page has it.
  keep() {
    const { left, top, span } = this.region;
    const part = [left, top, span].map((one) => Math.round(one));
    this.model.set("region", { text: this.data.text, part });
    this.model.save_changes?.();
  }

  restore() {
    const { text, part } = this.model.get("region") ?? {};
    if (text !== this.data.text || !part?.every?.(Number.isFinite)) return;
    const span = clamp(part[2], Math.min(CLOSEST, this.count), this.count);
    const [left, top] = part.map((one) => clamp(one, 0, this.count - span));
    this.region = { left, top, span };
  }

  // Zooms around a point, by default around the middle.
  zoom(factor, row, column) {
    const { left, top, span } = this.region;
    const next = clamp(span * factor, Math.min(CLOSEST, this.count), this.count);
    row ??= top + span / 2;
    column ??= left + span / 2;
    const share = next / span;
    const around = (at, first) => at - (at - first) * share;
    this.show({ left: around(column, left), top: around(row, top), span: next });
  }

  // Draws once for all changes of a frame.
  later() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.draw();
    });
  }

  draw() {
    if (!this.colours || !this.width) return;
    const two = this.count > SMALL && this.width >= 640;
    const margin = this.width < 480 ? 64 : 92;
    const side = Math.min(two ? (this.width - margin - 20) / 2 : this.width - margin, 600);
    const [part, whole] = [Math.floor(side) + margin, two ? Math.floor(side) : 200];
    this.part.margin = margin;
    if (this.fitted !== `${part} ${whole} ${globalThis.devicePixelRatio}`) {
      this.fitted = `${part} ${whole} ${globalThis.devicePixelRatio}`;
      this.part.fit(part);
      this.whole.fit(whole);
      this.part.canvas.style.width = `${part}px`;
      this.whole.canvas.style.width = `${whole}px`;
      this.wholeDrawn = null;
    }
    this.el.dataset.span = Math.round(this.region.span);
    this.part.draw(this.tints, this.region, this.colours, this.own.dots);
    this.seams(this.part, this.region);
    this.labels();
    this.outline();
    if (this.count > SMALL) this.overview();
    clearTimeout(this.filling);
    this.filling = setTimeout(() => this.fill(), 200);
  }

  // The whole is drawn once for each head, theme and size; the window on it is an element.
  overview() {
    const { whole, region, count } = this;
    if (this.wholeDrawn !== this.colours) {
      whole.draw(this.tints, { left: 0, top: 0, span: count }, this.colours, this.own.dots);
      this.seams(whole, { left: 0, top: 0, span: count });
      this.wholeDrawn = this.colours;
      const cells = 2 ** this.tints.level(count / whole.side);
      const size = cells > 1 ? `; each cell the maximum of ${cells} × ${cells}` : "";
      this.under.textContent = `all ${count.toLocaleString("en")} tokens${size}`;
    }
    const share = (tokens) => `${(100 * tokens) / count}%`;
    const [left, top, side] = [region.left, region.top, region.span].map(share);
    Object.assign(this.window.style, { left, top, width: side, height: side });
  }

  // Grey lines before the queries and keys whose positions repeat earlier ones.
  seams(picture, region) {
    const { context, margin } = picture;
    const side = picture.side / picture.ratio;
    context.fillStyle = this.own.seam;
    context.globalAlpha = 0.6;
    for (const token of this.data.seams ?? []) {
      const [down, across] = [region.top, region.left].map((first) =>
        Math.round(picture.at(token, first, region)),
      );
      if (down >= margin) context.fillRect(margin, down, side, 1);
      if (across >= margin) context.fillRect(across, margin, 1, side);
    }
    context.globalAlpha = 1;
  }

  // Tokens at both sides; where there is no room for every fourth, their numbers.
  labels() {
    const { part, region, data } = this;
    const context = part.context;
    const cell = part.cell(region);
    const chosen = this.chosenTokens();
    const step = Math.max(1, Math.ceil(LABEL / cell));
    const numbers = step > 4;
    const every = numbers ? round(step * 3) : step;
    context.font = "11px Inter, system-ui, sans-serif";
    context.textBaseline = "middle";
    const write = (token, first, turned) => {
      const at = part.at(token + (numbers ? 0 : 0.5), first, region);
      const edge = part.margin;
      context.save();
      if (turned) context.translate(at, edge - 5);
      else context.translate(edge - 5, at);
      if (turned) context.rotate(-Math.PI / 2);
      context.textAlign = turned ? "left" : "right";
      context.fillStyle = chosen.has(token) ? this.own.chosen : this.own.ink;
      const words = numbers ? token.toLocaleString("en") : data.tokens[token];
      context.fillText(fitted(context, words, edge - 8), 0, 0);
      context.restore();
    };
    for (const [first, turned] of [[region.top, false], [region.left, true]]) {
      const last = Math.min(first + region.span, this.count);
      for (let token = Math.ceil(first / every) * every; token < last; token += every) {
        if (part.at(token + (numbers ? 0 : 0.5), first, region) >= part.margin + 4) {
          write(token, first, turned);
        }
      }
      this.mark(chosen, first, turned);
    }
  }

  // A bar at the side of each token of the chosen words.
  mark(chosen, first, turned) {
    const { part, region } = this;
    part.context.fillStyle = this.own.chosen;
    for (const token of chosen) {
      const at = part.at(token, first, region);
      const size = Math.max(part.cell(region), 2);
      if (at < part.margin || token >= first + region.span) continue;
      const box = [part.margin - 3, at, 3, size];
      if (turned) part.context.fillRect(box[1], box[0], box[3], box[2]);
      else part.context.fillRect(...box);
    }
  }

  chosenTokens() {
    const { text, words } = this.model.get("selection") ?? {};
    if (text !== this.data.text || !words?.length) return new Set();
    const chosen = new Set(words);
    return new Set([...this.data.word_of.keys()].filter((at) => chosen.has(this.data.word_of[at])));
  }

  // The chosen cell: two pixels of the ground inside two pixels of ink.
  outline() {
    if (!this.cursor) return;
    const { part, region } = this;
    const [query, key] = this.cursor;
    const size = Math.max(part.cell(region), 6);
    const [x, y] = [part.at(key, region.left, region), part.at(query, region.top, region)];
    if (x < part.margin - size || y < part.margin - size) return;
    for (const [colours, inset] of [[this.own.ink, -3], [this.own.ground, -1]]) {
      part.context.strokeStyle = colours;
      part.context.lineWidth = 2;
      part.context.strokeRect(x + inset, y + inset, size - 2 * inset, size - 2 * inset);
    }
  }

  // ---- what is read ----

  // The strongest cell of what one pixel shows around a row and a column.
  strongest(row, column) {
    const side = 2 ** this.tints.level(this.region.span / this.part.side);
    const first = (value) => Math.floor(clamp(value, 0, this.count - 1) / side) * side;
    return this.tints.strongest(first(row), first(column), side);
  }

  read(cell) {
    const first = "Point at a cell to read its weight.";
    this.says.textContent = cell && this.codes ? this.sentence(...cell) : first;
  }

  sentence(query, key) {
    const { data, scale, seen } = this;
    const name = (token) => `“${data.tokens[token]}” (token ${token})`;
    const pair = `${name(query)} → ${name(key)}: `;
    const code = this.codes[query * this.count + key];
    if (code === 255) return pair + "not seen by the query";
    const uniform = 1 / Math.max(seen[query], 1);
    const exact = this.exact.get(query)?.[key];
    const weight = exact ?? scale.weight(code);
    const rounded = ` ± ${(100 * scale.rounding).toFixed(1)}%`;
    const written =
      exact !== undefined
        ? `${exact.toPrecision(6)} exactly`
        : code
          ? short(weight) + rounded
          : `below ${scale.floor.toFixed(5)}`;
    const ratio = weight ? `, ×${short(weight / uniform)}` : "";
    const keys = `1 of ${seen[query].toLocaleString("en")} keys`;
    return `${pair}${written}; uniform attention ${short(uniform)} (${keys})${ratio}`;
  }

  // The strongest cells of the region, when the table is open.
  fill() {
    if (!this.table.open || !this.tints) return;
    const { data, region, count, scale } = this;
    const top = Math.floor(region.top);
    const left = Math.floor(region.left);
    const rows = Math.min(Math.ceil(region.top + region.span), count) - top;
    const columns = Math.min(Math.ceil(region.left + region.span), count) - left;
    const cells = this.tints.largest({ top, left, rows, columns }, ROWS);
    const head = ["query", "key", "weight", "uniform", "ratio"];
    const line = ([query, key]) => {
      const uniform = 1 / Math.max(this.seen[query], 1);
      const weight = scale.weight(this.codes[query * count + key]);
      const token = (at) => `${data.tokens[at]} (${at})`;
      return element(
        "tr",
        {},
        element("th", { scope: "row" }, token(query)),
        element("td", { class: "left" }, token(key)),
        ...[weight, uniform, weight / uniform].map((one) => element("td", {}, short(one))),
      );
    };
    const caption =
      `${this.head.name}: the largest weights relative to uniform attention; queries ${top} to ` +
      `${top + rows - 1}, keys ${left} to ${left + columns - 1}`;
    const table = element(
      "table",
      { class: "lists" },
      element("caption", {}, caption),
      element("thead", {}, element("tr", {}, ...head.map((one) => header(one)))),
      element("tbody", {}, ...cells.map(line)),
    );
    this.table.querySelector("table")?.remove();
    this.table.append(table);
  }

  // ---- what a reader does ----

  select(cell) {
    this.cursor = cell;
    const of = this.data.word_of;
    const words = [...new Set(cell.map((token) => of[token]))];
    this.model.set("selection", { text: this.data.text, words });
    this.model.save_changes?.();
    this.read(cell);
    this.later();
    this.ask(cell[0]);
  }

  // A host that can answer sends the exact row of a query.
  ask(query) {
    if (!this.model.send || this.exact.has(query)) return;
    this.model.send({ kind: "row", text: this.data.text, head: this.head.name, query });
  }

  hear(content, buffers) {
    const { kind, text, head, query } = content ?? {};
    if (kind === "codes" && text === this.data.text) return this.codesFor.get(head)?.(content.data);
    if (kind !== "row" || text !== this.data.text || head !== this.head?.name) return undefined;
    const bytes = buffers[0];
    const view = ArrayBuffer.isView(bytes) ? bytes : new DataView(bytes);
    const count = Math.min(this.count, view.byteLength >> 2);
    const from = new DataView(view.buffer, view.byteOffset, view.byteLength);
    const row = Float32Array.from({ length: count }, (_, at) => from.getFloat32(4 * at, true));
    this.exact.set(query, row);
    if (this.cursor?.[0] === query) this.read(this.cursor);
    return undefined;
  }

  key(event) {
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const move = moves[event.key];
    if (!this.tints || event.ctrlKey || event.metaKey || event.altKey) return;
    if (move && event.shiftKey) this.shift(...move);
    else if (move) this.step(...move);
    else if (event.key === "+" || event.key === "=") this.zoom(0.5, ...this.center());
    else if (event.key === "-") this.zoom(2, ...this.center());
    else if (event.key === "0") this.show({ left: 0, top: 0, span: this.count });
    else if ((event.key === "Enter" || event.key === " ") && this.cursor) this.select(this.cursor);
    else return;
    event.preventDefault();
  }

  center() {
    return this.cursor ? this.cursor.map((at) => at + 0.5) : [];
  }

  shift(down, across) {
    const { left, top, span } = this.region;
    this.show({ left: left + (across * span) / 4, top: top + (down * span) / 4, span });
  }

  // Moves the chosen cell by what one pixel shows, and the region with it.
  step(down, across) {
    const { left, top, span } = this.region;
    const side = 2 ** this.tints.level(span / this.part.side);
    const start = [Math.floor(top), Math.floor(left)];
    const [query, key] = this.cursor ?? start;
    const next = this.cursor
      ? [query + down * side, key + across * side].map((at) => clamp(at, 0, this.count - 1))
      : start;
    this.cursor = next;
    const inside = (at, first) => clamp(first, at + 1 - span, at);
    this.show({ left: inside(next[1], left), top: inside(next[0], top), span });
    this.read(next);
  }

  wheel(event) {
    if (!this.tints || (document.activeElement !== this.part.canvas && !event.ctrlKey)) return;
    event.preventDefault();
    const { row, column } = this.part.token(event, this.region);
    const pixels = event.deltaY * (event.deltaMode ? 16 : 1);
    this.zoom(2 ** clamp(pixels / 200, -1, 1), row, column);
  }

  // Two fingers zoom and move; one scrolls the page.
  pinch(event) {
    if (event.touches.length !== 2 || !this.tints) {
      this.fingers = null;
      return;
    }
    event.preventDefault();
    const [one, two] = event.touches;
    const middle = {
      clientX: (one.clientX + two.clientX) / 2,
      clientY: (one.clientY + two.clientY) / 2,
    };
    const apart = Math.max(1, Math.hypot(one.clientX - two.clientX, one.clientY - two.clientY));
    if (!this.fingers) {
      this.fingers = { ...this.part.token(middle, this.region), apart, span: this.region.span };
      return;
    }
    const { row, column } = this.fingers;
    const span = clamp((this.fingers.span * this.fingers.apart) / apart, CLOSEST, this.count);
    const at = this.part.token(middle, { left: 0, top: 0, span });
    this.show({ left: column - at.column, top: row - at.row, span });
  }

  press(event) {
    if (event.pointerType === "touch" || event.button || !this.tints) return;
    this.drag = { ...this.part.token(event, this.region), x: event.clientX, y: event.clientY };
    this.part.canvas.setPointerCapture(event.pointerId);
  }

  point(event) {
    if (!this.tints) return;
    const { drag } = this;
    const at = this.part.token(event, this.region);
    if (drag && Math.hypot(event.clientX - drag.x, event.clientY - drag.y) > 3) drag.moved = true;
    if (drag?.moved) {
      const { left, top, span } = this.region;
      this.show({ left: left + drag.column - at.column, top: top + drag.row - at.row, span });
    } else if (at.inside) this.read(this.strongest(at.row, at.column));
  }

  release(event) {
    const moved = this.drag?.moved;
    this.drag = null;
    if (moved || event.type === "pointercancel" || !this.tints) return;
    const at = this.part.token(event, this.region);
    if (at.inside) this.select(this.strongest(at.row, at.column));
  }

  // Centers the part on a point of the whole.
  jump(event) {
    const { span } = this.region;
    const at = this.whole.token(event, { left: 0, top: 0, span: this.count });
    this.show({ left: at.column - span / 2, top: at.row - span / 2, span });
  }
}

function header(words) {
  const kind = words === "query" || words === "key" ? "left" : undefined;
  return element("th", { scope: "col", class: kind }, words);
}

export default {
  render({ model, el, signal }) {
    const view = new Matrix(model, el, signal);
    view.read(null);
    view.resize();
  },
};
