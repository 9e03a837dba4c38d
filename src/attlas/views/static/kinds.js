// What the heads do: for each simple target how many heads give it much of their attention, and
// what each gives. A click on a target colours the grid by it and lists its heads.
// Data: head_kinds.py.
import { onTheme, theme } from "attlas/colour.js";
import { element, shape } from "attlas/dom.js";
import { onChange } from "attlas/model.js";
import { decimal } from "attlas/numbers.js";

const HEIGHT = 16;
const EVERY = 24; // heads of a list that are shown at first
const SHARES = { half: "½", quarter: "¼" };

class Kinds {
  constructor(model, el, signal) {
    this.model = model;
    this.data = model.get("data");
    this.rows = this.data.kinds.map((kind) => this.row(kind));
    const top = ["attention to", "a mark per head", "≥ ½", "≥ ¼", "most"];
    const head = top.map((title) => element("th", { scope: "col" }, title));
    const table = element(
      "table",
      { "aria-label": "How many heads give how much of their attention to what" },
      element("thead", {}, element("tr", {}, ...head)),
      element("tbody", {}, ...this.rows.flatMap(({ row, list }) => [row, list])),
    );
    el.classList.add("attlas-kinds");
    el.replaceChildren(table, element("p", { class: "note" }, this.note()));
    onChange(model, "head", () => this.mark(), signal);
    const themed = () => (el.style.colorScheme = theme());
    onTheme(themed, signal);
    themed();
    this.mark();
  }

  note() {
    const few = this.data.isWeak ? " Weak: fewer than 30 texts." : "";
    const marks = `Each mark is one of ${this.data.heads} heads, from 0 to 1`;
    return `${marks}; long tick: uniform attention; grey: not above it.${few}`;
  }

  row(kind) {
    const open = element(
      "button",
      { type: "button", class: "plain", "aria-expanded": "false" },
      kind.label,
    );
    const counts = Object.keys(SHARES).map((name) => {
      const { heads, between, uniform } = kind[name];
      const range = between[0] === between[1] ? "" : `; within intervals ${between.join(" to ")}`;
      const which = `${heads.length} heads with at least ${SHARES[name]}${range}`;
      const title = `${which}; uniform: ${uniform}`;
      return element("td", { class: "number", title }, String(heads.length));
    });
    const [name] = Object.keys(kind.shares);
    const share = ` ${decimal(kind.shares[name])}`;
    const best = element("td", { class: "best" }, this.button(name), share);
    const strip = this.strip(kind);
    const row = element(
      "tr",
      {},
      element("th", { scope: "row" }, open),
      element("td", { class: "strip" }, strip.svg),
      ...counts,
      best,
    );
    const place = element("td", { colspan: 5 });
    const list = element("tr", { class: "heads", hidden: true }, place);
    open.addEventListener("click", () => this.toggle(kind, open, list, place));
    return { row, list, marks: strip.marks };
  }

  // One mark per head; those at or below the control are grey.
  strip(kind) {
    const svg = shape("svg", { viewBox: `0 0 100 ${HEIGHT}`, preserveAspectRatio: "none" });
    const line = (at, group, top = 0) =>
      shape("line", { x1: at, x2: at, y1: top, y2: HEIGHT - top, class: group });
    svg.append(...[0, 25, 50, 100].map((at) => line(at, "rule")));
    const marks = new Map();
    for (const [name, share] of Object.entries(kind.shares)) {
      const at = 100 * Math.min(1, Math.max(0, share));
      marks.set(name, line(at, share > kind.control ? "value" : "low", 3));
    }
    svg.append(...marks.values(), line(100 * Math.min(1, kind.control), "control"));
    const { half, quarter } = kind;
    const counts = `${half.heads.length} at least half, ${quarter.heads.length} a quarter`;
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", `${kind.label}: ${counts}; uniform ${decimal(kind.control)}`);
    return { svg, marks };
  }

  button(name) {
    const one = element("button", { type: "button", class: "plain", "data-name": name }, name);
    one.addEventListener("click", () => {
      this.model.set("head", this.model.get("head") === name ? "" : name);
      this.model.save_changes();
    });
    return one;
  }

  toggle(kind, open, list, place) {
    const isOpen = list.hidden;
    list.hidden = !isOpen;
    open.setAttribute("aria-expanded", String(isOpen));
    if (!isOpen) return;
    this.fill(kind, place, EVERY);
    this.model.set("column", kind.column);
    this.model.save_changes();
  }

  fill(kind, place, most) {
    const names = kind.quarter.heads;
    const says = names.length ? "at least a quarter: " : "no head with a quarter; most: ";
    const shown = names.length ? names.slice(0, most) : Object.keys(kind.shares).slice(0, 3);
    const heads = shown.flatMap((name) => [
      this.button(name),
      ` ${decimal(kind.shares[name])}  `,
    ]);
    const rest = names.length - shown.length;
    const more = element("button", { type: "button", class: "plain" }, `${rest} more`);
    more.addEventListener("click", () => this.fill(kind, place, names.length));
    place.replaceChildren(says, ...heads, ...(rest > 0 ? [more] : []));
    this.mark();
  }

  mark() {
    const head = this.model.get("head");
    for (const { row, list, marks } of this.rows) {
      for (const [name, mark] of marks) mark.classList.toggle("chosen", name === head);
      for (const part of [row, list]) {
        for (const one of part.querySelectorAll("[data-name]")) {
          one.setAttribute("aria-pressed", String(one.dataset.name === head));
        }
      }
    }
  }
}

export default {
  render({ model, el, signal }) {
    new Kinds(model, el, signal);
  },
};
