// Charts of Vega-Lite, drawn when they come near the screen, in the theme of the page. Expressions
// are interpreted, so that no code is made from strings. Data: report.py.
import { chartTables } from "attlas/chart_table.js";
import { onTheme, theme } from "attlas/colour.js";
import { whenNear } from "attlas/near.js";
import { inflated } from "attlas/packing.js";

// The library of charts, which a page carries compressed: it runs when the first chart is drawn. A
// server has it as a file of its own, whose address is in data-source.
let library;
async function loadLibrary() {
  if (globalThis.vegaEmbed) return;
  const place = document.getElementById("library");
  const script = document.createElement("script");
  if (place.dataset.source) {
    script.src = place.dataset.source;
    await new Promise((resolve, reject) => {
      script.addEventListener("load", resolve);
      script.addEventListener("error", () => reject(new Error("its library is missing")));
      document.head.append(script);
    });
    return;
  }
  script.textContent = new TextDecoder().decode(await inflated(place.textContent));
  document.head.append(script);
}

// Rows from columns: a column of few words is a list of them and an index for each row.
export function rows({ fields, columns }) {
  const read = columns.map((column) =>
    Array.isArray(column) ? column : column.at.map((index) => column.of[index]),
  );
  const count = read[0]?.length ?? 0;
  return Array.from({ length: count }, (_, row) =>
    Object.fromEntries(fields.map((field, index) => [field, read[index][row]])),
  );
}

function unpacked(spec) {
  if (!spec.datasets) return spec;
  const datasets = Object.entries(spec.datasets).map(([name, one]) => [
    name,
    Array.isArray(one) ? one : rows(one),
  ]);
  return { ...spec, datasets: Object.fromEntries(datasets) };
}

const bound = (spec) => (spec.params ?? []).filter((one) => one.bind).map(({ name }) => name);

class Chart {
  constructor(place, spec) {
    this.place = place;
    this.packed = spec;
  }

  get spec() {
    return (this.unpacked ??= unpacked(this.packed));
  }

  // Draws it, again where the theme has changed: what a reader chose in its menus stays.
  async draw(themes) {
    const { place, spec } = this;
    const binds = place.previousElementSibling;
    const names = bound(spec);
    const chosen = this.view ? names.map((name) => this.view.signal(name)) : [];
    const config = { ...themes[theme()], background: "transparent" };
    const actions = { export: true, source: false, compiled: false, editor: false };
    const options = { config, bind: binds, renderer: "svg", ast: true, actions };
    this.drawn = true;
    binds.replaceChildren();
    try {
      await (library ??= loadLibrary());
      this.view?.finalize();
      this.view = (await globalThis.vegaEmbed(place, spec, options)).view;
      chosen.forEach((value, index) => this.view.signal(names[index], value));
      if (chosen.length) await this.view.runAsync();
      place.querySelector("summary")?.setAttribute("aria-label", "Save the chart");
    } catch (problem) {
      place.textContent = "This chart could not be drawn: " + problem;
    }
  }

  // Its numbers, in the fold below it.
  fill(fold) {
    if (fold.open && fold.childElementCount === 1) fold.append(...chartTables(this.spec));
  }
}

export function drawCharts(root, { specs, themes }) {
  const charts = [...root.querySelectorAll("[data-chart]")].map(
    (place) => new Chart(place, specs[Number(place.dataset.chart)]),
  );
  for (const one of charts) {
    whenNear(one.place, () => one.draw(themes));
    const fold = one.place.parentElement.querySelector("details[data-rows]");
    fold?.addEventListener("toggle", () => one.fill(fold));
  }
  onTheme(() => charts.filter((one) => one.drawn).forEach((one) => one.draw(themes)));
}
