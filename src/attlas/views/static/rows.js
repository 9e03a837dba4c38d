// Who attends to whom in one text: attention received, rows and columns of selected words, and what
// uniform attention would give; from all weights of a short text, or from the largest of each word.
import { unpacked, unpackedRoots } from "attlas/packing.js";
import { unitsOf } from "attlas/units.js";

async function visibleOf(data) {
  const [first, stop, count] = await Promise.all(
    ["first", "stop", "count"].map((name) => unpacked(data[name])),
  );
  return { of: data.of, first, stop, count, always: data.always };
}

async function topsOf(data) {
  const all = (parts, read) => Promise.all(parts.map(read));
  const step = Math.log(data.faintest) / data.steps;
  const weight = Float64Array.from({ length: 256 }, (_, code) =>
    code ? Math.exp(step * (data.steps + 1 - code)) : 0,
  );
  const part = {
    words: await all(data.words, unpacked),
    codes: await all(data.weights, unpacked),
    rest: await all(data.rest, unpackedRoots),
  };
  const count = part.rest[0].rows;
  const rows = data.rows ?? Array.from({ length: count }, (_, row) => row);
  const known = new Map(rows.map((row, at) => [row, { ...part, at }])); // each with its part
  return { ranks: data.ranks, error: data.error, weight, rows: known };
}

export async function readText(data) {
  const [of, words, tokens] = await Promise.all(
    [data.of, data.words, data.tokens].map((one) => unpacked(one)),
  );
  const text = new TextRows(data, unitsOf(data, of, words, tokens));
  if (data.received) {
    text.byToken = await unpackedRoots(data.received);
    text.even = await unpackedRoots(data.uniform);
  }
  if (data.visible) text.visible = await visibleOf(data.visible);
  if (data.scores) text.scores = await unpacked(data.scores);
  if (data.tops) text.tops = await topsOf(data.tops);
  if (data.weights) {
    text.codes = await unpacked(data.weights.codes);
    text.scale = data.weights.scale / 65535;
  }
  return text;
}

class TextRows {
  constructor(data, { words, tokens, slice }) {
    this.data = data;
    this.words = words;
    this.tokens = tokens;
    this.slice = slice;
    this.tokenCount = words.of.length;
    this.exact = new Map(); // numbers of a word in a view, of a host
    [this.layers, this.heads] = data.shape ?? [0, 0];
  }
  // Whether no query sees a later key, as in a decoder; the first token is then often a sink.
  get causal() {
    const { stop, always } = this.visible ?? {};
    const size = this.tokenCount;
    return Boolean(stop) && size > 1 && always.every((one) => one.every((key) => key === 0))
      && stop.every((end, at) => end <= (at % size) + 1);
  }
  // Whether it is known who attends to whom.
  get hasRows() {
    return Boolean(this.codes || this.tops);
  }
  // The units in which rows are known: of a long text, words.
  rowUnits(units) {
    return this.codes ? units : this.words;
  }
  // The heads of a view, each with its share: "" is the mean of all, "scaled" by importance.
  parts(view) {
    const heads = this.layers * this.heads;
    if (view === "scaled") return this.data.importance.map((share, row) => [row, share]);
    const [, layer, head] = /^L(\d+)(?:H(\d+))?$/.exec(view) ?? [];
    if (layer === undefined) return Array.from({ length: heads }, (_, row) => [row, 1 / heads]);
    if (head !== undefined && this.heads > 1) return [[layer * this.heads + Number(head), 1]];
    const from = layer * this.heads;
    return Array.from({ length: this.heads }, (_, row) => [from + row, 1 / this.heads]);
  }
  has(view) {
    if (view === "scaled") return Boolean(this.data.importance);
    const [, layer, head] = /^L(\d+)(?:H(\d+))?$/.exec(view) ?? [];
    return view === "" || (Number(layer) < this.layers && !(Number(head) >= this.heads));
  }
  received(view, units) {
    const out = new Float64Array(this.tokenCount);
    for (const [row, share] of this.parts(view)) this.byToken.add(row, share, out);
    return units.summed(out);
  }
  uniform(view, units) {
    const out = new Float64Array(this.tokenCount);
    const shares = new Map();
    for (const [row, share] of this.parts(view)) {
      const kind = this.data.uniform_of[Math.floor(row / this.heads)];
      shares.set(kind, (shares.get(kind) ?? 0) + share);
    }
    for (const [kind, share] of shares) this.even.add(kind, share, out);
    return units.summed(out);
  }
  score(method, units) {
    const from = method * this.tokenCount;
    return units.summed(this.scores.subarray(from, from + this.tokenCount));
  }
  // What the chosen units attend to, the mean of their rows (side 0), or what attends to them, the
  // sum of their columns (side 1): by unit, with uniform attention, and what is not listed.
  row(side, view, units, chosen) {
    const values = new Float64Array(units.count);
    if (!chosen.length) return { values, uniform: values, rest: 0 };
    let rest = 0;
    const isExact = chosen.every((word) => this.exact.has(`${view} ${word}`));
    if (!this.codes && isExact) this.addExact(side, view, chosen, values);
    else if (!this.codes) rest = this.addTops(side, view, chosen, values);
    else if (side) this.addColumns(view, units, chosen, values);
    else this.addRows(view, units, chosen, values);
    return { values, uniform: this.uniformRow(side, view, units, chosen), rest };
  }
  addRows(view, units, chosen, values) {
    const count = this.tokenCount;
    for (const [row, share] of this.parts(view)) {
      for (const unit of chosen) {
        const factor = (share * this.scale) / units.size(unit) / chosen.length;
        for (const query of units.tokens(unit)) {
          const from = (row * count + query) * count;
          for (let key = 0; key < count; key++) {
            values[units.of[key]] += this.codes[from + key] * factor;
          }
        }
      }
    }
  }
  addColumns(view, units, chosen, values) {
    const count = this.tokenCount;
    const keys = chosen.flatMap((unit) => [...units.tokens(unit)]);
    for (const [row, share] of this.parts(view)) {
      for (let query = 0; query < count; query++) {
        const from = (row * count + query) * count;
        let sum = 0;
        for (const key of keys) sum += this.codes[from + key];
        const unit = units.of[query];
        values[unit] += (sum * share * this.scale) / units.size(unit);
      }
    }
  }
  addExact(side, view, chosen, values) {
    const factor = side ? 1 : 1 / chosen.length;
    for (const word of chosen) {
      const row = this.exact.get(`${view} ${word}`)[side];
      for (let at = 0; at < row.length; at++) values[at] += row[at] * factor;
    }
  }
  // The rows of the largest weights that a view needs and that a host has not sent yet.
  missing(view) {
    if (!this.tops) return [];
    return this.topRows(view).map(([row]) => row).filter((row) => !this.tops.rows.has(row));
  }
  // Words of which a view needs numbers that a host has not sent yet.
  missingWords(view, words) {
    if (!this.missing(view).length) return [];
    return words.filter((word) => !this.exact.has(`${view} ${word}`));
  }
  // What a word attends to and what attends to it, in one view, exactly.
  addWord(view, word, bytes) {
    const count = this.words.count;
    const number = (_, at) => bytes.getFloat32(4 * at, true);
    const rows = Float32Array.from({ length: 2 * count }, number);
    this.exact.set(`${view} ${word}`, [rows.subarray(0, count), rows.subarray(count)]);
  }
  async addRow(data) {
    for (const [row, part] of (await topsOf(data)).rows) this.tops.rows.set(row, part);
  }
  // The rows of the largest weights: means of layers and of all are there as such.
  topRows(view) {
    const heads = this.layers * this.heads;
    if (view === "") return [[heads + this.layers, 1]];
    const layer = /^L(\d+)$/.exec(view);
    return layer ? [[heads + Number(layer[1]), 1]] : this.parts(view);
  }
  addTops(side, view, chosen, values) {
    const { ranks, weight, rows } = this.tops;
    const count = this.words.count;
    let others = 0;
    for (const [row, share] of this.topRows(view)) {
      if (!rows.has(row)) continue; // it is on its way
      const { words, codes, rest, at: own } = rows.get(row);
      const factor = side ? share : share / chosen.length;
      for (const word of chosen) {
        const from = (own * count + word) * ranks;
        for (let at = from; at < from + ranks; at++) {
          values[words[side][at]] += weight[codes[side][at]] * factor;
        }
        others += rest[side].at(own, word) * factor;
      }
    }
    return others;
  }
  uniformRow(side, view, units, chosen) {
    const out = new Float64Array(units.count);
    const shares = new Map();
    for (const [row, share] of this.parts(view)) {
      const kind = this.visible.of[row];
      shares.set(kind, (shares.get(kind) ?? 0) + share);
    }
    for (const [kind, share] of shares) {
      if (side) this.addUniformColumns(kind, share, units, chosen, out);
      else this.addUniformRows(kind, share, units, chosen, out);
    }
    return out;
  }
  addUniformRows(kind, share, units, chosen, out) {
    const { first, stop, count, always } = this.visible;
    const from = kind * this.tokenCount;
    for (const unit of chosen) {
      for (const query of units.tokens(unit)) {
        const [low, high] = [first[from + query], stop[from + query]];
        const each = share / units.size(unit) / chosen.length / Math.max(1, count[from + query]);
        for (let key = low; key < high; key++) out[units.of[key]] += each;
        for (const key of always[kind]) if (key < low || key >= high) out[units.of[key]] += each;
      }
    }
  }
  addUniformColumns(kind, share, units, chosen, out) {
    const { first, stop, count, always } = this.visible;
    const size = this.tokenCount;
    const from = kind * size;
    const before = new Int32Array(size + 1);
    for (const unit of chosen) for (const key of units.tokens(unit)) before[key + 1] = 1;
    const special = always[kind].filter((key) => before[key + 1]);
    for (let key = 0; key < size; key++) before[key + 1] += before[key];
    for (let query = 0; query < size; query++) {
      const [low, high] = [first[from + query], stop[from + query]];
      let seen = before[high] - before[low];
      for (const key of special) if (key < low || key >= high) seen++;
      const unit = units.of[query];
      out[unit] += (seen * share) / Math.max(1, count[from + query]) / units.size(unit);
    }
  }
}
