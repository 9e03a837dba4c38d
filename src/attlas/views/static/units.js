// The words, or the tokens, of a text: their characters, their tokens, which are special.

// A function from characters as Python counts them to a piece of the text.
function slicer(content) {
  const at = [0];
  for (const letter of content) at.push(at[at.length - 1] + letter.length);
  return (start, stop) => content.slice(at[start], at[Math.min(stop, at.length - 1)]);
}

// Tokens of a unit, one after the other: those of unit k are members[first[k]] to first[k + 1].
function grouped(of, count) {
  const first = new Int32Array(count + 1);
  for (const unit of of) first[unit + 1]++;
  for (let unit = 0; unit < count; unit++) first[unit + 1] += first[unit];
  const members = new Int32Array(of.length);
  const next = first.slice();
  of.forEach((unit, token) => (members[next[unit]++] = token));
  return { first, members };
}

class Units {
  constructor(name, of, spans, special, slice) {
    this.name = name;
    this.of = of;
    this.spans = spans;
    this.special = special; // unit: string
    this.count = spans.length / 2;
    this.slice = slice;
    Object.assign(this, grouped(of, this.count));
  }
  size(unit) {
    return this.first[unit + 1] - this.first[unit];
  }
  tokens(unit) {
    return this.members.subarray(this.first[unit], this.first[unit + 1]);
  }
  string(unit) {
    const special = this.special.get(unit);
    return special ?? this.slice(this.spans[2 * unit], this.spans[2 * unit + 1]).trim();
  }
  // Its first character and the one after its last, as Python counts them.
  span(unit) {
    return [this.spans[2 * unit], this.spans[2 * unit + 1]];
  }
  // The units with a character of these spans.
  within(spans) {
    const units = Array.from({ length: this.count }, (_, unit) => unit);
    return units.filter((unit) => {
      const [start, stop] = this.span(unit);
      return spans.some(([from, to]) => start < to && from < stop);
    });
  }
  // Sums over the tokens of each unit.
  summed(values) {
    const out = new Float64Array(this.count);
    for (let token = 0; token < this.of.length; token++) out[this.of[token]] += values[token];
    return out;
  }
}

// Where letters begin, with their marks, as Python counts characters.
function letterStarts(content) {
  const starts = new Set();
  let at = 0;
  for (const { segment } of new Intl.Segmenter().segment(content)) {
    starts.add(at);
    for (const _ of segment) at++;
  }
  return starts;
}

// The spans with the marks that a tokenizer leaves out: each ends where a letter does.
function wholeLetters(spans, starts, length) {
  const out = spans.slice();
  for (let unit = 0; 2 * unit < out.length; unit++) {
    const next = 2 * unit + 2 < out.length && out[2 * unit + 2] >= 0 ? out[2 * unit + 2] : length;
    let stop = out[2 * unit + 1];
    while (stop > 0 && stop < next && !starts.has(stop)) stop++;
    out[2 * unit + 1] = stop;
  }
  return out;
}

// Characters are not shown twice, and no letter is taken apart: a token within the characters of
// the one before it, such as a byte of an emoji or the mark of a letter, is one unit with it.
function tokenUnits(spans, isSpecial, starts) {
  const of = new Int32Array(spans.length / 2);
  const own = [];
  let cursor = 0;
  for (let token = 0; token < of.length; token++) {
    const [start, stop] = [spans[2 * token], spans[2 * token + 1]];
    if (isSpecial(token)) own.push(-1, -1);
    else if ((stop > cursor && starts.has(start)) || !own.length || own[own.length - 1] < 0) {
      own.push(Math.max(start, cursor), Math.max(stop, cursor));
      cursor = Math.max(stop, cursor);
    } else {
      cursor = Math.max(stop, cursor);
      own[own.length - 1] = cursor;
    }
    of[token] = own.length / 2 - 1;
  }
  return [of, Int32Array.from(own)];
}

export function unitsOf(data, of, wordSpans, tokenSpans) {
  const slice = slicer(data.content);
  const special = new Map(Object.entries(data.special).map(([word, one]) => [Number(word), one]));
  const length = [...data.content].length;
  const words = new Units("words", of, wordSpans, special, slice);
  const isSpecial = (token) => special.has(of[token]);
  const starts = letterStarts(data.content);
  const [unitOf, spans] = tokenUnits(tokenSpans, isSpecial, starts);
  const marks = new Map();
  unitOf.forEach((unit, token) => {
    if (special.has(of[token])) marks.set(unit, special.get(of[token]));
  });
  const tokens = new Units("tokens", unitOf, spans, marks, slice);
  for (const units of [words, tokens]) units.spans = wholeLetters(units.spans, starts, length);
  return { words, tokens, slice };
}
