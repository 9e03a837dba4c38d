// The grid of all heads, coloured by a column that the reader chooses. Data: head_views.py.
// The chosen head is shared by all views of a page; arrow keys move it.
import { onTheme, paint, theme } from "attlas/colour.js";
import { element, menu } from "attlas/dom.js";
import { Chosen, Heads } from "attlas/head_columns.js";
import { columnRows, foldedTable } from "attlas/head_table.js";
import { legend } from "attlas/legend.js";
import { whenNear } from "attlas/near.js";
import { cellScale, cellText, known } from "attlas/numbers.js";
import { strip } from "attlas/strip.js";

const SMALLEST = 24; // pixels of a cell
const LARGEST = 36;
const TALLEST = 28;
const MOST_TEXTS = 400; // heads that all have their number; of more, those with a strong tint
const STRONG = 0.3;
const LABELS = 30; // pixels of the names of rows
const DOTS = 230; // pixels that the dots by layer need to the right of the grid
const MARKS = { "·": "not significant", "○": "smaller than the smallest effect" };

class Grid {
  constructor(model, el, signal) {
    this.el = el;
    this.heads = new Heads(model.get("data"), el.dataset);
    this.chosen = new Chosen(model, this.heads, signal, {
      onHead: () => this.moved(),
      onColumn: () => this.drawColumn(),
    });
    this.withStrip = !el.classList.contains("compact");
    this.read = element("p", { class: "read", role: "status", "aria-live": "off" });
    this.pictures = element("div", { class: "pictures" });
    this.legend = element("div");
    const options = this.heads.options();
    if (this.heads.columns.size > 1) {
      this.menu = menu("coloured by", "column", options);
      this.menu.select.addEventListener("change", () =>
        this.chosen.chooseColumn(this.menu.select.value),
      );
    }
    this.title = element("span", { class: "title" });
    this.table = foldedTable(() => columnRows(this.heads, [this.chosen.column]));
    el.classList.add("attlas-heads");
    el.replaceChildren(
      element("div", { class: "controls" }, this.menu ? this.menu.label : this.title),
      this.pictures,
      this.legend,
      this.read,
      this.table.fold,
    );
    el.addEventListener("focusin", () => this.read.setAttribute("aria-live", "polite"));
    el.addEventListener("focusout", () => this.read.setAttribute("aria-live", "off"));
    const observer = new ResizeObserver(() => this.fit());
    observer.observe(el);
    signal?.addEventListener("abort", () => observer.disconnect());
    onTheme(() => this.drawColumn(), signal);
    this.fit();
  }

  // Builds the grid again if the room for it asks for another one.
  fit() {
    const { layers, heads } = this.heads;
    const room = this.el.clientWidth || 480;
    const across = layers >= 2 * heads && room >= SMALLEST * layers + LABELS;
    const columns = across ? layers : heads;
    const share = this.withStrip && !across && room >= 640 ? room - DOTS - 24 : room;
    const cell = Math.floor((share - LABELS) / columns);
    const size = Math.min(LARGEST, Math.max(SMALLEST, cell));
    const left = room - LABELS - size * columns - 24;
    const shape = [across, size, left >= DOTS ? Math.min(left, 380) : 0].join();
    if (shape === this.shape) return;
    this.shape = shape;
    this.layout = { across, size, strip: left >= DOTS && !across ? Math.min(left, 380) : 0 };
    this.build();
  }

  build() {
    const { layers, heads } = this.heads;
    const { across, size } = this.layout;
    const rows = across ? heads : layers;
    const columns = across ? layers : heads;
    const named = across ? ["L", "H"] : ["H", "L"];
    const index = (row, column) => (across ? column * heads + row : row * heads + column);
    this.cells = [];
    this.above = Array.from({ length: columns }, (_, column) =>
      element("th", { scope: "col" }, `${named[0]}${column}`),
    );
    this.before = [];
    const body = Array.from({ length: rows }, (_, row) => {
      const name = element("th", { scope: "row" }, `${named[1]}${row}`);
      this.before.push(name);
      const cells = Array.from({ length: columns }, (_, column) => {
        const cell = element("td", { role: "gridcell", tabindex: -1 });
        this.cells[index(row, column)] = { cell, row, column };
        cell.dataset.head = this.heads.name(index(row, column));
        return cell;
      });
      return element("tr", { role: "row" }, name, ...cells);
    });
    this.index = index;
    this.size = [rows, columns];
    const grid = element(
      "table",
      { role: "grid", "aria-label": `${layers} layers, ${heads} heads each; arrow keys move` },
      element("thead", {}, element("tr", { role: "row" }, element("td"), ...this.above)),
      element("tbody", {}, ...body),
    );
    grid.style.setProperty("--cell", `${size}px`);
    grid.style.width = `${LABELS + size * columns}px`;
    grid.addEventListener("click", (event) => this.clicked(event));
    grid.addEventListener("keydown", (event) => this.pressed(event));
    grid.addEventListener("pointerover", (event) => this.say(this.under(event)));
    grid.addEventListener("pointerleave", () => this.say(this.chosen.head));
    this.place = element("div");
    this.pictures.replaceChildren(element("div", { class: "frame" }, grid), this.place);
    this.drawColumn();
  }

  drawColumn() {
    this.el.style.colorScheme = theme();
    const column = this.chosen.column;
    if (this.menu) this.menu.select.value = column.name;
    this.title.textContent = column.label;
    const scale = cellScale(column.values);
    const all = this.heads.count <= MOST_TEXTS;
    this.cells.forEach(({ cell }, index) => {
      const shade = column.shades[index];
      const value = column.values[index];
      const written = all || Math.abs(shade) >= STRONG;
      const mark = column.marks?.[index];
      cell.textContent = mark || (written ? cellText(value, scale) : "");
      cell.classList.toggle("marked", Boolean(mark));
      cell.classList.toggle("none", !known(value));
      const why = mark ? `; ${MARKS[mark]}` : "";
      const says = `${this.heads.name(index)}: ${this.heads.says(column, index)}${why}`;
      cell.setAttribute("aria-label", says);
      paint(cell, shade, column.signed);
    });
    this.legend.replaceChildren(legend(column, scale.says));
    this.table.draw();
    this.moved();
  }

  moved() {
    const head = this.chosen.head;
    const { row, column } = this.cells[head] ?? {};
    this.cells.forEach(({ cell }, index) => {
      const is = index === head;
      cell.setAttribute("aria-selected", String(is));
      cell.tabIndex = is || (head < 0 && index === 0) ? 0 : -1;
    });
    this.above.forEach((one, index) => one.classList.toggle("chosen", index === column));
    this.before.forEach((one, index) => one.classList.toggle("chosen", index === row));
    this.say(head);
    this.drawStrip(head);
  }

  drawStrip(head) {
    const { across, size, strip: room } = this.layout;
    this.pictures.classList.toggle("narrow", !room);
    if (!this.withStrip) return;
    const below = Math.min(this.el.clientWidth || 480, 480);
    const drawn = strip(this.heads, this.chosen.column, {
      step: across ? size : room ? Math.min(size, TALLEST) : 18,
      size: across ? 120 : room || below,
      across,
      before: across ? LABELS : 0,
      chosen: head,
      choose: (index) => this.toggle(index),
    });
    this.place.replaceChildren(drawn);
  }

  say(head) {
    if (head === undefined) return;
    const name = head < 0 ? "Mean of all heads" : this.heads.name(head);
    const known = head < 0 ? undefined : this.heads.names[name];
    this.read.replaceChildren(
      element("b", {}, name),
      ` ${this.heads.says(this.chosen.column, head)}${known ? ` · ${known}` : ""}`,
    );
  }

  under(event) {
    const name = event.target.closest("td[data-head]")?.dataset.head;
    return name === undefined ? undefined : this.heads.index(name);
  }

  toggle(index) {
    this.chosen.choose(index === this.chosen.head ? -1 : index);
  }

  clicked(event) {
    const index = this.under(event);
    if (index === undefined) return;
    this.toggle(index);
    this.cells[index].cell.focus({ preventScroll: true });
  }

  pressed(event) {
    const index = this.under(event);
    if (index === undefined) return;
    const { row, column } = this.cells[index];
    const [rows, columns] = this.size;
    const ends = event.ctrlKey || event.metaKey;
    const places = {
      ArrowLeft: [row, column - 1],
      ArrowRight: [row, column + 1],
      ArrowUp: [row - 1, column],
      ArrowDown: [row + 1, column],
      Home: [ends ? 0 : row, 0],
      End: [ends ? rows - 1 : row, columns - 1],
      PageUp: [0, column],
      PageDown: [rows - 1, column],
    };
    if (event.key === "Enter" || event.key === " ") this.toggle(index);
    else if (event.key === "Escape") this.chosen.choose(-1);
    else if (event.key in places) this.go(...places[event.key]);
    else return;
    event.preventDefault();
  }

  go(row, column) {
    const [rows, columns] = this.size;
    if (row < 0 || column < 0 || row >= rows || column >= columns) return;
    const index = this.index(row, column);
    this.chosen.choose(index);
    this.cells[index].cell.focus();
  }
}

export function drawHeads(model, el, signal) {
  whenNear(el, () => new Grid(model, el, signal), signal);
}

export default {
  render({ model, el, signal }) {
    drawHeads(model, el, signal);
  },
};
