// A text with arcs between its words: above to earlier words, below to later ones. The text wraps;
// a word that is chosen shows its own lines only.
import { colour } from "attlas/colour.js";
import { element, shape } from "attlas/dom.js";
import { number } from "attlas/head_numbers.js";

const MOST = 4; // words that a line of words names

// The lines of example `number` of all: query, key and weight.
export function linesOf(examples, number) {
  let from = 0;
  for (let one = 0; one < number; one++) from += examples.lines[one];
  return Array.from({ length: examples.lines[number] }, (_, at) => ({
    query: examples.query[from + at],
    key: examples.key[from + at],
    weight: examples.weight[from + at] / 255,
  }));
}

// A line between two rows of the text is faint until one of its words is chosen.
function arc(one, from, to, chosen) {
  const x1 = from.x,
    x2 = to.x;
  if (one.query === one.key) {
    return shape("circle", { cx: x1, cy: from.bottom + 4, r: 2.2 });
  }
  const apart = Math.abs(from.top - to.top) > 4;
  let d;
  if (apart) {
    const up = to.top < from.top;
    const [y1, y2] = up ? [from.top, to.bottom] : [from.bottom, to.top];
    const middle = (y1 + y2) / 2;
    d = `M${x1} ${y1}C${x1} ${middle} ${x2} ${middle} ${x2} ${y2}`;
  } else {
    const size = Math.min(13, 4 + Math.abs(x1 - x2) / 14);
    const before = one.key < one.query;
    const y = before ? from.top : from.bottom,
      peak = before ? y - size : y + size;
    d = `M${x1} ${y}C${x1} ${peak} ${x2} ${peak} ${x2} ${y}`;
  }
  return shape("path", { d, fill: "none", "stroke-opacity": apart && chosen < 0 ? 0.3 : 1 });
}

function drawn(svg, words, lines, chosen) {
  const box = svg.parentNode;
  svg.setAttribute("width", box.clientWidth);
  svg.setAttribute("height", box.clientHeight);
  const places = words.map((word) => ({
    x: word.offsetLeft + word.offsetWidth / 2,
    top: word.offsetTop + 1,
    bottom: word.offsetTop + word.offsetHeight - 1,
  }));
  const shown = lines.filter((one) => chosen < 0 || one.query === chosen || one.key === chosen);
  const parts = [...shown].reverse().map((one) => {
    const part = arc(one, places[one.query], places[one.key], chosen);
    const stroke = `rgb(${colour(0.35 + 0.6 * one.weight).join(" ")})`;
    const isDot = one.query === one.key;
    part.setAttribute(isDot ? "fill" : "stroke", stroke);
    if (!isDot) part.setAttribute("stroke-width", (1 + 1.2 * one.weight).toFixed(2));
    return part;
  });
  svg.replaceChildren(...parts);
}

function wordLines(tokens, lines, chosen) {
  const named = (end, other) => {
    const own = lines.filter((one) => one[end] === chosen).slice(0, MOST);
    return own.map((one) => `${tokens[one[other]]} ${number(one.weight)}`).join(", ");
  };
  const to = named("query", "key"),
    by = named("key", "query");
  const parts = [to && `attends to ${to}`, by && `attended to by ${by}`].filter(Boolean);
  return `${tokens[chosen]}: ${parts.join("; ") || "no weight above uniform attention is shown"}`;
}

function whole(tokens, lines) {
  const share = lines.reduce((sum, one) => sum + one.weight, 0) / tokens.length;
  const count = lines.length === 1 ? "1 line" : `${lines.length} lines`;
  return `${count} with ${Math.round(100 * share)}% of the attention`;
}

// The words of a text with arcs, one tab stop, and a line that says what is chosen.
export function arcText(text, lines, signal) {
  const { tokens } = text;
  const marks = new Set(text.special),
    joined = new Set(text.joined);
  const svg = shape("svg", { "aria-hidden": "true" });
  const reading = element("p", { class: "grey", role: "status", "aria-live": "polite" });
  const box = element("div", { class: "arcs", dir: "auto", role: "group" }, svg);
  box.setAttribute("aria-label", "Words of the text; arrow keys move between them");
  const words = tokens.map((token, at) => {
    const kind = marks.has(at) ? "word special" : "word";
    const options = { class: kind, role: "button", "aria-pressed": "false" };
    const word = element("span", { ...options, tabindex: at ? -1 : 0 }, token);
    box.append(at && !joined.has(at) ? " " : "", word);
    return word;
  });
  let chosen = -1;
  const draw = () => box.clientWidth && drawn(svg, words, lines, chosen);
  const choose = (at) => {
    chosen = at === chosen ? -1 : at;
    words.forEach((word, index) => word.setAttribute("aria-pressed", String(index === chosen)));
    reading.textContent = chosen < 0 ? whole(tokens, lines) : wordLines(tokens, lines, chosen);
    draw();
  };
  const focus = (at) => {
    if (!words[at]) return;
    words.forEach((word, index) => word.setAttribute("tabindex", index === at ? 0 : -1));
    words[at].focus();
  };
  box.addEventListener("click", (event) => {
    const at = words.indexOf(event.target);
    if (at < 0) return;
    focus(at);
    choose(at);
  });
  box.addEventListener("keydown", (event) => {
    const at = words.indexOf(event.target);
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (at < 0 || !(step || event.key === "Enter" || event.key === " ")) return;
    event.preventDefault();
    if (step) focus(at + step);
    else choose(at);
  });
  reading.textContent = whole(tokens, lines);
  const observer = new ResizeObserver(draw);
  observer.observe(box);
  signal?.addEventListener("abort", () => observer.disconnect());
  return [box, reading];
}
