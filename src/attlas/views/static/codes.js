// Weights as codes of 8 bits on a log scale (matrices.py packs them), and pictures of a square of
// them: 0 is below the floor, 1 to 254 the floor to 1, 255 what a query does not see.
const MASKED = 255;
const STEPS = 253;

// The scale of codes: code of a weight, weight of a code, and by how much a weight is rounded.
export function scaleOf(floor) {
  const step = -Math.log(floor) / STEPS;
  return {
    floor,
    step,
    rounding: Math.exp(step / 2) - 1,
    code: (weight) => (weight < floor ? 0 : 1 + Math.round(Math.log(weight / floor) / step)),
    weight: (code) => (code ? floor * Math.exp((code - 1) * step) : 0),
  };
}

// The tints of one head: 0 where a query does not see a key, 1 at or below the uniform attention
// of its row, and one more for each code above it. `levels[k]` has the maximum of each square of
// 2 ** k cells, so that no cell is lost in a small picture.
export class Tints {
  constructor(codes, starts) {
    const size = starts.length;
    const first = new Uint8Array(size * size);
    this.most = 1; // the strongest tint, in codes above uniform attention
    for (let row = 0; row < size; row++) {
      const start = starts[row];
      let most = 0;
      for (let at = row * size; at < (row + 1) * size; at++) {
        const code = codes[at];
        if (code === MASKED) continue;
        const above = code > start ? code - start : 0;
        first[at] = above + 1;
        if (above > most) most = above;
      }
      if (most > this.most) this.most = most;
    }
    this.size = size;
    this.levels = [first];
    this.sizes = [size];
    while (this.sizes.at(-1) > 1) this.#halve();
    this.masked = first.includes(0);
  }

  #halve() {
    const from = this.levels.at(-1);
    const size = this.sizes.at(-1);
    const half = (size + 1) >> 1;
    const to = new Uint8Array(half * half);
    for (let row = 0; row < size; row++) {
      const base = (row >> 1) * half;
      for (let column = 0, at = row * size; column < size; column++, at++) {
        const cell = base + (column >> 1);
        if (from[at] > to[cell]) to[cell] = from[at];
      }
    }
    this.levels.push(to);
    this.sizes.push(half);
  }

  // The level whose cells are at least a pixel, at so many cells in a pixel.
  level(cells) {
    const level = Math.max(0, Math.ceil(Math.log2(cells) - 1e-9));
    return Math.min(level, this.levels.length - 1);
  }

  // The cell with the strongest tint in a square of so many cells: its row and column.
  strongest(row, column, side) {
    let best = [row, column];
    let most = -1;
    for (let query = row; query < Math.min(row + side, this.size); query++) {
      for (let key = column; key < Math.min(column + side, this.size); key++) {
        const tint = this.levels[0][query * this.size + key];
        if (tint > most) [most, best] = [tint, [query, key]];
      }
    }
    return best;
  }

  // The `count` cells of a region with the strongest tints above uniform attention, in order.
  largest({ top, left, rows, columns }, count) {
    const tints = this.levels[0];
    const numbers = new Uint32Array(256);
    const each = (visit) => {
      for (let query = top; query < top + rows; query++) {
        const from = query * this.size + left;
        for (let at = from; at < from + columns; at++) visit(tints[at], at);
      }
    };
    each((tint) => numbers[tint]++);
    let least = 255;
    for (let sum = numbers[255]; least > 2 && sum < count; sum += numbers[least]) least--;
    const cells = [];
    each((tint, at) => {
      if (tint >= least && (tint > least || cells.length < 4 * count)) cells.push([tint, at]);
    });
    cells.sort((one, other) => other[0] - one[0] || one[1] - other[1]);
    return cells
      .slice(0, count)
      .map(([, at]) => [Math.floor(at / this.size), at % this.size]);
  }
}

// Which cell of a level each pixel shows: from a first cell of level 0, so many cells in a pixel.
function cellsOf(first, cells, pixels, level, size) {
  const scale = 2 ** level;
  return Int32Array.from({ length: pixels }, (_, pixel) => {
    const cell = Math.floor((first + (pixel + 0.5) * cells) / scale);
    return cell < 0 || cell >= size ? -1 : cell;
  });
}

// Draws a square region of a head into an image: `table` has a colour for each tint, `dots` that
// of the texture where a query does not see a key.
export function drawTints(image, tints, { left, top, span }, table, dots) {
  const { width, height } = image;
  const out = new Uint32Array(image.data.buffer);
  const cells = span / width;
  const level = tints.level(cells);
  const [values, size] = [tints.levels[level], tints.sizes[level]];
  const columns = cellsOf(left, cells, width, level, size);
  const rows = cellsOf(top, cells, height, level, size);
  for (let y = 0; y < height; y++) {
    const line = out.subarray(y * width, (y + 1) * width);
    if (rows[y] < 0) {
      line.fill(0);
    } else if (y % 4 > 1 && rows[y] === rows[y - 1]) {
      line.set(out.subarray((y - 1) * width, y * width));
    } else {
      const base = rows[y] * size;
      for (let x = 0; x < width; x++) {
        line[x] = columns[x] < 0 ? 0 : table[values[base + columns[x]]];
      }
      if (y % 4 === 0) dot(line, values, base, columns, dots, y);
    }
  }
}

// The texture of a row of pixels: every fourth, moved by two in every other row.
function dot(line, values, base, columns, dots, y) {
  for (let x = y % 8 ? 2 : 0; x < line.length; x += 4) {
    if (columns[x] >= 0 && values[base + columns[x]] === 0) line[x] = dots;
  }
}
