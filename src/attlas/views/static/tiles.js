// The average attention of every head as a small heat map: layers down, heads across, uniform
// attention last. Data: head_views.py.
import { onTheme, palette, theme } from "attlas/colour.js";
import { element } from "attlas/dom.js";
import { foldedTable } from "attlas/head_table.js";
import { onChange } from "attlas/model.js";
import { whenNear } from "attlas/near.js";
import { unpacked } from "attlas/packing.js";
import { decimal } from "attlas/numbers.js";

const SMALLEST = 26;
const LARGEST = 64;
const TALLEST = 760; // pixels of all layers, if that leaves cells their smallest size
const LABELS = 28;

class Tiles {
  constructor(model, el, signal, data) {
    this.model = model;
    this.el = el;
    this.data = data;
    this.one = element("input", { type: "checkbox" });
    this.one.addEventListener("change", () => this.paint());
    this.place = element("div", { class: "frame" });
    this.read = element("p", { class: "read", role: "status", "aria-live": "off" });
    this.note = element("p", { class: "note" });
    el.classList.add("attlas-tiles");
    const label = element("label", {}, this.one, " one scale for all heads");
    el.replaceChildren(element("div", { class: "controls" }, this.note, label));
    el.append(this.place, this.read, foldedTable(() => this.rows()).fold);
    el.addEventListener("focusin", () => this.read.setAttribute("aria-live", "polite"));
    el.addEventListener("focusout", () => this.read.setAttribute("aria-live", "off"));
    const observer = new ResizeObserver(() => this.fit());
    observer.observe(el);
    signal?.addEventListener("abort", () => observer.disconnect());
    onTheme(() => this.paint(), signal);
    onChange(model, "head", () => this.moved(), signal);
    this.build();
    this.fit();
  }

  build() {
    const { layers, heads } = this.data;
    this.tiles = [];
    const numbers = [...Array(heads).keys()];
    const top = element("tr", { role: "row" }, element("td"));
    for (const head of numbers) top.append(element("th", { scope: "col" }, `H${head}`));
    top.append(element("th", { scope: "col", title: "uniform" }, "unif."));
    const body = element("tbody");
    for (let layer = 0; layer < layers; layer++) {
      const row = element("tr", { role: "row" }, element("th", { scope: "row" }, `L${layer}`));
      for (const head of numbers) row.append(this.tile(this.data.tiles, layer * heads + head));
      row.append(this.tile(this.data.uniform, layer, "uniform"));
      body.append(row);
    }
    const label = "Average attention of every head, query down, key across; arrow keys move";
    this.grid = element("table", { role: "grid", "aria-label": label });
    this.grid.append(element("thead", {}, top), body);
    this.grid.addEventListener("click", (event) => this.clicked(event));
    this.grid.addEventListener("keydown", (event) => this.pressed(event));
    this.place.replaceChildren(this.grid);
  }

  tile({ codes, scales: tops }, number, kind = "") {
    const { side, heads } = this.data;
    const canvas = element("canvas", { width: side, height: side });
    const cell = element("td", { role: "gridcell", class: kind, tabindex: -1 }, canvas);
    const head = kind ? null : `L${Math.floor(number / heads)}H${number % heads}`;
    if (head) cell.dataset.head = head;
    const says = `${head ?? "Uniform attention"}: largest cell ${decimal(tops[number], true)}`;
    cell.setAttribute("aria-label", says);
    this.tiles.push({ cell, canvas, codes, from: number * side ** 2, top: tops[number], head });
    return cell;
  }

  fit() {
    const room = (this.el.clientWidth || 480) - LABELS;
    const size = Math.floor(room / (this.data.heads + 1));
    const high = Math.floor(TALLEST / this.data.layers);
    const next = Math.min(LARGEST, Math.max(SMALLEST, Math.min(size, high)));
    if (next !== this.size) {
      this.size = next;
      this.grid.style.setProperty("--cell", `${next}px`);
      this.grid.style.width = `${LABELS + next * (this.data.heads + 1)}px`;
    }
    this.paint();
  }

  paint() {
    const now = [theme(), this.one.checked].join();
    this.el.style.colorScheme = theme();
    const which = this.one.checked ? "One scale" : "Each head on its own scale, from 0";
    this.note.textContent = `Query down, key across. ${which}; a root brings out what is faint.`;
    this.moved();
    if (now === this.painted) return;
    this.painted = now;
    const largest = Math.max(...this.data.tiles.scales, ...this.data.uniform.scales);
    const ownTops = layerTops(this.data);
    this.tiles.forEach((tile) => {
      const layer = tile.head ? null : tile.from / this.data.side ** 2;
      const top = this.one.checked ? largest : tile.head ? tile.top : ownTops[layer];
      drawTile(tile, this.data.side, Math.sqrt(tile.top / (top || 1)));
    });
  }

  moved() {
    const head = this.model.get("head") ?? "";
    let any = false;
    for (const tile of this.tiles) {
      const is = tile.head !== null && tile.head === head;
      any ||= is;
      tile.cell.setAttribute("aria-selected", String(is));
      tile.cell.tabIndex = is ? 0 : -1;
    }
    if (!any) this.tiles[0].cell.tabIndex = 0;
    const tile = this.tiles.find((one) => one.head === head);
    this.read.replaceChildren(
      ...(tile ? [element("b", {}, head), ` largest cell ${decimal(tile.top, true)}`] : []),
    );
  }

  // The largest cell of each head, and of uniform attention in its layer.
  rows() {
    const { heads, tiles, uniform } = this.data;
    const short = (value) => Number(value.toPrecision(4));
    const row = (top, at) => {
      const layer = Math.floor(at / heads);
      return [`L${layer}H${at % heads}`, short(top), short(uniform.scales[layer])];
    };
    return [["largest cell", "uniform attention"], tiles.scales.map(row)];
  }

  choose(head) {
    this.model.set("head", head === this.model.get("head") ? "" : head);
    this.model.save_changes();
  }

  clicked(event) {
    const cell = event.target.closest("td[data-head]");
    if (!cell) return;
    this.choose(cell.dataset.head);
    cell.focus({ preventScroll: true });
  }

  pressed(event) {
    const cell = event.target.closest("td[data-head]");
    if (!cell) return;
    const { layers, heads } = this.data;
    const [, layer, head] = /^L(\d+)H(\d+)$/.exec(cell.dataset.head).map(Number);
    const places = {
      ArrowLeft: [layer, head - 1],
      ArrowRight: [layer, head + 1],
      ArrowUp: [layer - 1, head],
      ArrowDown: [layer + 1, head],
      Home: [layer, 0],
      End: [layer, heads - 1],
    };
    if (event.key === "Enter" || event.key === " ") this.choose(cell.dataset.head);
    else if (event.key in places) {
      const [down, right] = places[event.key];
      if (down >= 0 && right >= 0 && down < layers && right < heads) {
        this.model.set("head", `L${down}H${right}`);
        this.model.save_changes();
        this.grid.querySelector(`td[data-head="L${down}H${right}"]`).focus();
      }
    } else return;
    event.preventDefault();
  }
}

// Uniform attention is drawn on the scale of the strongest head of its layer.
function layerTops({ layers, heads, tiles, uniform }) {
  return Array.from({ length: layers }, (_, layer) =>
    Math.max(uniform.scales[layer], ...tiles.scales.slice(layer * heads, (layer + 1) * heads)),
  );
}

function drawTile({ canvas, codes, from }, side, share) {
  const colours = palette((one) => (one / 255) * share);
  const context = canvas.getContext("2d");
  const image = context.createImageData(side, side);
  const cells = new Uint32Array(image.data.buffer);
  for (let index = 0; index < cells.length; index++) {
    cells[index] = colours[Math.round((codes[from + index] / 65535) * 255)];
  }
  context.putImageData(image, 0, 0);
}

async function read(rows) {
  return { ...rows, codes: await unpacked(rows.codes) };
}

export default {
  async render({ model, el, signal }) {
    const data = model.get("data");
    const [tiles, uniform] = [await read(data.tiles), await read(data.uniform)];
    whenNear(el, () => new Tiles(model, el, signal, { ...data, tiles, uniform }), signal);
  },
};
