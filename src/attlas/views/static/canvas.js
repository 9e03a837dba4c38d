// A square picture on a canvas with labels at its sides, in the pixels of the screen.
import { drawTints } from "attlas/codes.js";
import { element } from "attlas/dom.js";

// The colours that the rules of a page give to a canvas, which cannot take them by name.
export function pageColours(canvas) {
  const style = getComputedStyle(canvas);
  return {
    ink: style.color,
    ground: style.backgroundColor,
    chosen: style.caretColor,
    dots: style.columnRuleColor,
    seam: style.textDecorationColor,
  };
}

// A colour such as "rgb(1, 2, 3)" as the bytes of an image.
export function pixel(words) {
  const [red, green, blue] = words.match(/\d+/g).map(Number);
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

// A canvas that keeps the size of its element in the pixels of the screen.
export class Picture {
  constructor(kind, attributes) {
    this.canvas = element("canvas", { class: kind, ...attributes });
    this.context = this.canvas.getContext("2d");
    this.margin = 0;
  }
  fit(width) {
    this.ratio = Math.min(globalThis.devicePixelRatio || 1, 2);
    this.side = Math.max(1, Math.round((width - this.margin) * this.ratio));
    this.canvas.width = this.canvas.height = Math.round(width * this.ratio);
    this.image = this.context.createImageData(this.side, this.side);
  }
  // The tints of a region, below and right of the margin.
  draw(tints, region, table, dots) {
    const { context, canvas } = this;
    context.resetTransform();
    context.clearRect(0, 0, canvas.width, canvas.height);
    drawTints(this.image, tints, region, table, pixel(dots));
    context.putImageData(this.image, canvas.width - this.side, canvas.height - this.side);
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
  }
  // Pixels of a cell.
  cell(region) {
    return this.side / this.ratio / region.span;
  }
  // Where a token begins, in pixels from the edge of the canvas.
  at(token, first, region) {
    return this.margin + (token - first) * this.cell(region);
  }
  // The row and column at a point of the window, as numbers with fractions.
  token(event, region) {
    const box = this.canvas.getBoundingClientRect();
    const scale = this.canvas.width / this.ratio / box.width;
    const from = (value) => ((value * scale - this.margin) / this.cell(region));
    const [down, across] = [from(event.clientY - box.top), from(event.clientX - box.left)];
    const inside = down >= 0 && across >= 0;
    return { row: region.top + down, column: region.left + across, inside };
  }
}

// A round number at least as large: 5, 10, 20, 50, ...
export function round(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].find((digit) => digit * power >= value) * power;
}

// Words, cut to a width.
export function fitted(context, words, width) {
  if (context.measureText(words).width <= width) return words;
  const letters = [...words];
  const cut = () => letters.join("") + "…";
  while (letters.length && context.measureText(cut()).width > width) letters.pop();
  return cut();
}
