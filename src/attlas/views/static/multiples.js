// Small pictures of one head: bars, rows, lines, heat maps, all heads in order; controls in grey.
import { colour, palette } from "attlas/colour.js";
import { element, shape } from "attlas/dom.js";
import { headName, number, ordinal, written } from "attlas/head_numbers.js";

const WIDTH = 144,
  HEIGHT = 104,
  BASE = 86,
  TOP = 12,
  NUMBERS = 44, // room of the numbers at the ends of lines
  LINE = 11; // pixels between two numbers
const rgb = (shade) => `rgb(${colour(shade).join(" ")})`;
const known = (values) => values.filter((one) => one !== null);
const controlOf = (profile, place) => profile.control[profile.control.length > 1 ? place : 0];

function span(profile, place) {
  const own = profile.scale === "own";
  const rows = own ? [profile.values[place]] : profile.values;
  const controls = own ? [controlOf(profile, place)] : profile.control;
  const every = known([...rows, ...controls].flat());
  const low = Math.min(0, ...every),
    high = Math.max(0, ...every);
  return { low, high: high > low ? high : low + 1 };
}

// Whether a value is on the side of its control that is of interest.
function beyond(kind, value, control) {
  if (control === null || kind === "plain" || kind === "signed") return true;
  return kind === "below" ? value < control : value > control;
}

// The x at which a head is furthest beyond its control: what is said before one is chosen.
function furthest(profile, place) {
  const control = controlOf(profile, place);
  let best = -1,
    most = -Infinity;
  profile.values[place].forEach((value, at) => {
    if (value === null) return;
    const gap = value - (control[at] ?? 0);
    const size = profile.kind === "below" ? -gap : gap;
    if (size > most) [best, most] = [at, size];
  });
  return best;
}

function frame(label) {
  const size = { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, height: HEIGHT };
  return shape("svg", { ...size, role: "img", "aria-label": label });
}

function text(words, x, y, anchor = "start", kind = "") {
  return shape("text", { x, y, "text-anchor": anchor, class: kind }, words);
}

// The names of both ends of an axis, and of what is chosen: alone where there is no room for all.
function ends(svg, profile, chosen, at, right = WIDTH) {
  const { labels } = profile,
    last = labels.length - 1,
    width = (label) => 6.2 * label.length,
    own = labels[chosen];
  const isLong = width(labels[0]) + width(labels[last]) + 6 > right && last > 2;
  const first = isLong ? `‹ ${labels[1]}` : labels[0],
    final = isLong ? `${labels[last - 1]} ›` : labels[last];
  const half = width(own) / 2;
  const middle = Math.max(half + 1, Math.min(right - half - 1, at(chosen)));
  const [from, to] = [middle - half, middle + half];
  const kind = (index) => (index === chosen ? "chosen" : "");
  const both = width(first) + width(final) + 6 < right && last > 0;
  const inside = chosen > 0 && chosen < last;
  const room = width(first) + 2 < from && right - width(final) - 2 > to;
  if (both) {
    svg.append(text(first, 1, HEIGHT - 4, "start", kind(0)));
    svg.append(text(final, right - 1, HEIGHT - 4, "end", kind(last)));
  }
  if (!both || (inside && room)) svg.append(text(own, middle, HEIGHT - 4, "middle", "chosen"));
}

// The numbers at which a line and that of its control end, apart from each other; that of the
// control has its name below it.
function endNumbers(svg, profile, values, control, x, y) {
  const some = [[values, ["own"]], [control, ["", profile.control_name.split(" ")[0]]]];
  const ends = some.flatMap(([numbers, [kind, name]]) => {
    const at = numbers.findLastIndex((one) => one !== null);
    if (at < 0) return [];
    const words = [number(numbers[at]), ...(name ? [name] : [])];
    return [{ words, kind, left: x(at) + 6, middle: y(numbers[at]), tall: LINE * words.length }];
  });
  ends.sort((one, other) => one.middle - other.middle);
  let room = ends.reduce((sum, { tall }) => sum + tall, 0);
  let top = 0;
  for (const { words, kind, left, middle, tall } of ends) {
    top = Math.max(top, Math.min(middle - tall / 2, BASE + LINE / 2 - room));
    words.forEach((one, line) => {
      svg.append(text(one, left, top + LINE * (line + 1) - 2, "start", kind));
    });
    top += tall;
    room -= tall;
  }
}

function bars(svg, profile, place, chosen) {
  const values = profile.values[place],
    control = controlOf(profile, place);
  const { low, high } = span(profile, place);
  const y = (value) => BASE - ((value - low) / (high - low)) * (BASE - TOP);
  const step = WIDTH / values.length,
    middle = (at) => (at + 0.5) * step;
  values.forEach((value, at) => {
    if (value === null) return;
    const tall = Math.max(0.5, Math.abs(y(value) - y(0)));
    const fill = beyond(profile.kind, value, control[at]) ? rgb(0.7) : undefined;
    const place = { x: at * step + 0.75, y: Math.min(y(value), y(0)), height: tall };
    svg.append(shape("rect", { ...place, width: step - 1.5, fill, class: fill ? "" : "low" }));
  });
  svg.append(line(control, middle, y, "control"));
  const mark = { x1: middle(chosen) - step / 2, x2: middle(chosen) + step / 2 };
  svg.append(shape("line", { ...mark, y1: BASE + 2.5, y2: BASE + 2.5, class: "mark" }));
  ends(svg, profile, chosen, middle);
  svg.append(text(number(high), WIDTH - 1, TOP - 3, "end"));
}

function line(values, x, y, kind) {
  let pen = "M";
  const path = values.map((value, at) => {
    if (value === null) return void (pen = "M");
    const part = `${pen}${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
    pen = "L";
    return part;
  });
  return shape("path", { d: path.filter(Boolean).join(""), class: kind, fill: "none" });
}

function lines(svg, profile, place, chosen) {
  const values = profile.values[place],
    control = controlOf(profile, place);
  const { low, high } = span(profile, place);
  const y = (value) => BASE - ((value - low) / (high - low)) * (BASE - TOP);
  const right = WIDTH - NUMBERS;
  const step = (right - 12) / Math.max(1, values.length - 1),
    x = (at) => 6 + at * step;
  svg.append(shape("line", { x1: 0, x2: right, y1: y(0), y2: y(0), class: "axis" }));
  svg.append(line(control, x, y, "control"), line(values, x, y, "own"));
  values.forEach((value, at) => {
    if (value === null) return;
    const kind = at === chosen ? "mark" : "";
    svg.append(shape("circle", { cx: x(at), cy: y(value), r: kind ? 4 : 2.5, class: kind }));
  });
  ends(svg, profile, chosen, x, right);
  endNumbers(svg, profile, values, control, x, y);
}

function rows(svg, profile, place, chosen) {
  const values = profile.values[place],
    control = controlOf(profile, place);
  const { low, high } = span(profile, place);
  const from = 62,
    x = (value) => from + ((value - low) / (high - low)) * (WIDTH - from - 26);
  const step = HEIGHT / values.length;
  values.forEach((value, at) => {
    const y = at * step,
      middle = y + step / 2 + 4;
    svg.append(text(profile.labels[at], from - 5, middle, "end", at === chosen ? "chosen" : ""));
    if (value === null) return;
    const fill = beyond(profile.kind, value, control[at]) ? rgb(0.7) : undefined;
    const size = { x: x(0), width: Math.max(0.5, x(value) - x(0)), y: y + 2, height: step - 4 };
    svg.append(shape("rect", { ...size, fill, class: fill ? "" : "low" }));
    const after = Math.max(x(value), x(control[at] ?? 0)) + 3;
    svg.append(text(number(value), after, middle));
    if (control[at] === null) return;
    const tick = { x1: x(control[at]), x2: x(control[at]), y1: y + 0.5, y2: y + step - 0.5 };
    svg.append(shape("line", { ...tick, class: "control" }));
  });
}

// All heads from the largest to the smallest, this one in orange.
function ranks(svg, profile, place) {
  const all = profile.values.map(([value], at) => [value, at]).filter(([value]) => value !== null);
  all.sort((one, other) => other[0] - one[0] || one[1] - other[1]);
  const { low, high } = span(profile, place);
  const y = (value) => BASE - ((value - low) / (high - low)) * (BASE - TOP);
  const step = WIDTH / all.length;
  let own = 0;
  all.forEach(([value, at], rank) => {
    if (at === place) own = rank;
    const size = Math.max(0.5, Math.abs(y(value) - y(0)));
    const where = { x: rank * step, y: Math.min(y(value), y(0)), height: size };
    const wide = at === place ? Math.max(3, step - 0.5) : Math.max(0.6, step - 0.5);
    const fill = at === place ? undefined : rgb(0.45);
    svg.append(shape("rect", { ...where, width: wide, fill, class: fill ? "" : "mark" }));
  });
  const control = controlOf(profile, place)[0];
  if (control !== null) {
    const level = { x1: 0, x2: WIDTH, y1: y(control), y2: y(control) };
    svg.append(shape("line", { ...level, class: "control" }));
  }
  const mark = { x: Math.min(own * step, WIDTH - 3), y: BASE + 1, width: 3, height: 3 };
  svg.append(shape("rect", { ...mark, class: "mark" }));
  const at = Math.min(Math.max((own + 0.5) * step, 16), WIDTH - 16);
  svg.append(text(ordinal(own + 1), at, HEIGHT - 4, "middle", "chosen"));
  if (at > 50) svg.append(text("1st", 1, HEIGHT - 4));
  if (at < WIDTH - 50) svg.append(text(ordinal(all.length), WIDTH - 1, HEIGHT - 4, "end"));
  svg.append(text(number(high), WIDTH - 1, TOP - 3, "end"));
  return `${ordinal(own + 1)} of ${all.length}`;
}

const DRAWN = { bars, rows, line: lines };

// The heat map of a head on a canvas of its own cells, which styles make larger.
export function tile(profile, place, label) {
  const { size, cells } = profile;
  const canvas = element("canvas", { width: size, height: size, role: "img", "aria-label": label });
  const context = canvas.getContext("2d");
  const image = context.createImageData(size, size);
  const colours = palette(),
    pixels = new Uint32Array(image.data.buffer);
  const from = place * size * size;
  for (let at = 0; at < pixels.length; at++) pixels[at] = colours[cells[from + at]];
  context.putImageData(image, 0, 0);
  return canvas;
}

function heatMap(profile, place, figure) {
  const most = profile.most[0][place];
  const label = `${profile.title}: ${profile.x}; largest cell ${number(most)}`;
  figure.append(element("div", { class: "tile" }, tile(profile, place, label)));
  const largest = element("figcaption", {}, element("b", {}, "largest"), ` ${number(most)}`);
  const note = `${profile.x}; own root scale, no tint at or below ${profile.control_name}`;
  figure.append(largest, element("p", { class: "grey" }, note));
}

// What a picture says of an x: its value and its control.
function says(profile, place, at, rank = "") {
  const value = profile.values[place][at],
    control = controlOf(profile, place)[at];
  const name = rank || profile.labels[at];
  const largest = Math.max(Math.abs(value), Math.abs(control ?? 0));
  const shown = (one) => written(one, largest);
  const grey = control === null ? "" : `${profile.control_name} ${shown(control)}`;
  return [
    element("b", {}, name),
    ` ${value === null ? "-" : shown(value)} `,
    element("span", { class: "grey" }, grey),
  ];
}

// One small picture: its title, drawing, and a line that says what is chosen in it.
export function multiple(profile, place, heads) {
  const figure = element("figure", {});
  figure.append(element("h4", {}, profile.title));
  if (profile.picture === "tile") {
    heatMap(profile, place, figure);
    return figure;
  }
  const reading = element("figcaption", { role: "status", "aria-live": "polite" });
  const about = [profile.x, profile.unit].filter(Boolean).join("; ");
  const svg = frame(`${profile.title} of ${headName(place, heads)}: ${about}`);
  figure.append(svg, reading, element("p", { class: "grey" }, about));
  if (profile.picture === "ranks") {
    reading.append(...says(profile, place, 0, ranks(svg, profile, place)));
    return figure;
  }
  let chosen = furthest(profile, place);
  if (chosen < 0) {
    svg.remove();
    reading.append("not known of this head");
    return figure;
  }
  const moving = { role: "slider", tabindex: 0, "aria-valuemin": 1 };
  Object.entries({ ...moving, "aria-valuemax": profile.labels.length }).forEach((one) =>
    svg.setAttribute(...one),
  );
  const draw = () => {
    svg.replaceChildren();
    DRAWN[profile.picture](svg, profile, place, chosen);
    reading.replaceChildren(...says(profile, place, chosen));
    svg.setAttribute("aria-valuenow", chosen + 1);
    svg.setAttribute("aria-valuetext", reading.textContent);
  };
  const choose = (at) => {
    if (at < 0 || at >= profile.labels.length || at === chosen) return;
    chosen = at;
    draw();
  };
  const down = profile.picture === "rows";
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    choose(chosen + step);
  });
  svg.addEventListener("click", (event) => {
    const box = svg.getBoundingClientRect();
    const count = profile.labels.length;
    const across = ((event.clientX - box.left) / box.width) * WIDTH;
    if (down) choose(Math.floor(((event.clientY - box.top) / box.height) * count));
    else if (profile.picture === "bars") choose(Math.floor((across / WIDTH) * count));
    else choose(Math.min(count - 1, Math.round((across / (WIDTH - NUMBERS)) * (count - 1))));
  });
  draw();
  return figure;
}
