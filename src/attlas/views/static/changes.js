// A, B and B minus A as three grids with one head and one number, and what changed in words.
// Data: head_changes.py.
import { onTheme, theme } from "attlas/colour.js";
import { element, menu } from "attlas/dom.js";
import { changeAt, changeWords } from "attlas/head_change.js";
import { Chosen, Heads } from "attlas/head_columns.js";
import { drawHeads } from "attlas/heads.js";

const titles = ([a, b]) => [
  ["a", "A", a],
  ["b", "B", [b, "same scale as A"].filter(Boolean).join("; ")],
  ["difference", "B − A", "green rose, purple fell"],
];

class ThreeGrids {
  constructor(model, el, signal) {
    this.data = model.get("data");
    this.heads = new Heads(this.data.difference, {});
    this.chosen = new Chosen(model, this.heads, signal, {
      onHead: () => this.say(),
      onColumn: () => this.drawColumn(),
    });
    this.menu = menu("measure", "column", this.heads.options());
    this.menu.select.addEventListener("change", () =>
      this.chosen.chooseColumn(this.menu.select.value),
    );
    this.answer = element("p", { class: "answer" });
    this.read = element("p", { class: "read-out", role: "status", "aria-live": "polite" });
    el.classList.add("attlas-changes");
    const panels = titles(this.data.names).map((one) => this.panel(...one));
    el.replaceChildren(
      element("div", { class: "choose" }, this.menu.label),
      this.answer,
      element("div", { class: "panels" }, ...panels.map(({ panel }) => panel)),
      this.read,
    );
    panels.forEach(({ place, key }) => drawHeads(withData(model, this.data[key]), place, signal));
    onTheme(() => (el.style.colorScheme = theme()), signal);
    el.style.colorScheme = theme();
    this.drawColumn();
  }

  panel(key, title, note) {
    const place = element("div", { class: "compact follows" });
    const name = element("h4", {}, title);
    const head = element("div", { class: "head" }, name, element("span", {}, note));
    return { key, place, panel: element("div", { class: "panel" }, head, place) };
  }

  drawColumn() {
    this.menu.select.value = this.chosen.column.name;
    this.answer.textContent = this.data.answers[this.chosen.column.name] ?? "";
    this.say();
  }

  say() {
    const head = this.chosen.head;
    const change = changeAt(this.data.changes[this.chosen.column.name], head);
    const name = head < 0 ? "Choose a head" : this.heads.name(head);
    const words = head < 0 ? "in a grid or in the list below." : changeWords(change);
    this.read.replaceChildren(element("b", {}, name), ` ${words}`);
  }
}

// The model of a view with other data: what is chosen is that of the page.
function withData(model, data) {
  return {
    get: (name) => (name === "data" ? data : model.get(name)),
    set: (name, value) => model.set(name, value),
    on: (event, listener) => model.on(event, listener),
    off: (event, listener) => model.off(event, listener),
    save_changes: () => model.save_changes(),
  };
}

export default {
  render({ model, el, signal }) {
    new ThreeGrids(model, el, signal);
  },
};
