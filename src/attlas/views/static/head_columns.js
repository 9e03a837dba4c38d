// The columns of heads as head_views.py packs them, and which column and head are chosen.
import { code } from "attlas/packing.js";
import { onChange } from "attlas/model.js";
import { decimal, known } from "attlas/numbers.js";

const STEPS = 64 * 64 - 1;

function unpackShades(text, signed) {
  const middle = signed ? 2048 : 0;
  return Float32Array.from({ length: text.length / 2 }, (_, index) => {
    const high = code[text.charCodeAt(2 * index)];
    const low = code[text.charCodeAt(2 * index + 1)];
    return (64 * high + low - middle) / (STEPS - middle);
  });
}

export class Heads {
  // Of an element with data-columns, only those columns.
  constructor(data, { columns, first } = {}) {
    const wanted = columns && new Set(JSON.parse(columns));
    const own = data.columns.filter(({ name }) => !wanted || wanted.has(name));
    this.layers = data.layers;
    this.heads = data.heads;
    this.count = data.layers * data.heads;
    this.names = data.names ?? {};
    this.first = first ?? data.first;
    this.second = data.second;
    this.grouped = !wanted;
    this.columns = new Map(own.map((column) => [column.name, this.unpacked(column)]));
  }
  unpacked(column) {
    const every = Array.isArray(column.controls);
    const size = Math.max(0, ...column.values.filter(known).map(Math.abs));
    let shades = null;
    return {
      ...column,
      small: size < 0.095,
      constant: every || !known(column.controls) ? null : column.controls,
      controlOf: (index) => (every ? column.controls[index] : column.controls),
      get shades() {
        return (shades ??= unpackShades(column.shades, column.signed));
      },
    };
  }
  name(index) {
    return `L${Math.floor(index / this.heads)}H${index % this.heads}`;
  }
  // The number of a head, -1 where there is none of this name.
  index(name) {
    const [, layer, head] = /^L(\d+)H(\d+)$/.exec(name ?? "") ?? [];
    const inside = Number(layer) < this.layers && Number(head) < this.heads;
    return inside ? Number(layer) * this.heads + Number(head) : -1;
  }
  // Columns for a menu: pairs of name and label, by group where there are several.
  options() {
    const groups = {};
    for (const { name, label, group } of this.columns.values()) {
      (groups[group] ??= []).push([name, label]);
    }
    const lists = Object.values(groups);
    return this.grouped && lists.length > 1 ? groups : lists.flat();
  }
  mean(column, of = (index) => column.values[index]) {
    const values = Array.from({ length: this.count }, (_, index) => of(index)).filter(known);
    return values.length ? values.reduce((sum, one) => sum + one, 0) / values.length : null;
  }
  // A value and its control in a sentence; those of the mean of all heads for -1.
  says(column, index) {
    const value = index < 0 ? this.mean(column) : column.values[index];
    const control = index < 0 ? this.mean(column, column.controlOf) : column.controlOf(index);
    const against = known(control) ? `, ${column.control} ${decimal(control, column.small)}` : "";
    return `${column.label} ${decimal(value, column.small)}${known(value) ? against : ""}`;
  }
}

// The head and the column that a view shows: those of the page, as far as it has them.
export class Chosen {
  constructor(model, heads, signal, { onHead = () => {}, onColumn = () => {} } = {}) {
    this.model = model;
    this.heads = heads;
    this.shown = heads.first;
    this.follow();
    onChange(model, "head", () => onHead(), signal);
    const changed = () => {
      if (this.follow()) onColumn();
    };
    onChange(model, "column", changed, signal);
  }
  follow() {
    const wanted = this.model.get("column");
    if (!this.heads.columns.has(wanted) || wanted === this.shown) return false;
    this.shown = wanted;
    return true;
  }
  get column() {
    return this.heads.columns.get(this.shown);
  }
  get head() {
    return this.heads.index(this.model.get("head"));
  }
  choose(index) {
    this.share("head", index < 0 ? "" : this.heads.name(index));
  }
  chooseColumn(name) {
    this.share("column", name);
  }
  share(name, value) {
    this.model.set(name, value);
    this.model.save_changes();
  }
}
