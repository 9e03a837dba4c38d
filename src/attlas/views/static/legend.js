// A bar of colours from no tint to the darkest, with numbers; a triangle marks the control.
import { colour } from "attlas/colour.js";
import { element } from "attlas/dom.js";

const STOPS = 24;

export function bar(signed) {
  const low = signed ? -1 : 0;
  const stops = Array.from({ length: STOPS + 1 }, (_, index) => {
    const shade = low + ((1 - low) * index) / STOPS;
    return `rgb(${colour(shade, signed).join(" ")})`;
  });
  return `linear-gradient(to right, ${stops.join(", ")})`;
}

export function legend(column, note = "") {
  const [low, middle, high] = column.ticks;
  const scale = element("div", { class: "scale" });
  scale.style.background = bar(column.signed);
  const mark = element("span", { class: "mark", hidden: column.mark === null });
  mark.style.left = `${100 * (column.mark ?? 0)}%`;
  const numbers = element("div", { class: "ticks" });
  numbers.append(...[low, middle, high].map((tick) => element("span", {}, tick)));
  const says = [column.says, note].filter(Boolean).join("; ");
  const words = element("div", { class: "words" }, says);
  return element(
    "div",
    { class: "legend" },
    element("div", { class: "bar", "aria-hidden": "true" }, scale, mark, numbers),
    words,
  );
}
