// Lines of attention between the phrases of a triple, over the words if they go on in the text and under them if they go back. Data as triples.py gives it.
function drawTriples(place, triples, measure) {
  const text = place.querySelector(".phrases"), says = place.querySelector(".says"), marks = [...place.querySelectorAll("mark")];
  const named = { h: "head", t: "tail", r: "relation words" }, make = (name, attributes, parent) => {
    const one = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) one.setAttribute(key, value);
    parent.append(one);
    return one;
  };
  let chosen = 0;
  function show() {
    text.querySelector("svg")?.remove();
    if (!triples.length || !text.offsetWidth) return;
    const one = triples[chosen], mean = measure() === "mean", around = text.getBoundingClientRect();
    for (const mark of marks) mark.className = "";
    for (const [role, mine] of Object.entries(one.marks)) for (const mark of mine) marks[mark].className = role;
    const box = (role) => {  // the widest of the lines that a phrase stands on
      const rows = new Map();
      for (const mark of one.marks[role]) for (const part of marks[mark].getClientRects()) {
        const key = Math.round(part.top), row = rows.get(key) ?? { left: Infinity, right: -Infinity, top: part.top, bottom: part.bottom };
        rows.set(key, { ...row, left: Math.min(row.left, part.left), right: Math.max(row.right, part.right) });
      }
      const widest = [...rows.values()].sort((a, b) => b.right - b.left - a.right + a.left)[0];
      return { x: (widest.left + widest.right) / 2 - around.left, wide: widest.right - widest.left, top: widest.top - around.top - 1, foot: widest.bottom - around.top + 1 };
    };
    const order = Object.keys(one.marks).sort((a, b) => one.marks[a][0] - one.marks[b][0]);
    const boxes = Object.fromEntries(order.map((role) => [role, box(role)]));
    const svg = make("svg", { "aria-hidden": "true" }, text);
    for (const [source, target, average, weight] of one.lines) {
      const value = Math.max(0, mean ? average : weight), from = boxes[source], to = boxes[target];
      const onward = order.indexOf(source) < order.indexOf(target), near = Math.abs(order.indexOf(source) - order.indexOf(target)) === 1;
      const toward = to.x >= from.x ? 1 : -1, away = (end, side) => end.x + side * Math.min(end.wide / 2, 22) * (near ? .75 : .4);
      const x1 = away(from, toward), x2 = away(to, -toward);
      let y1, y2, leave, arrive;
      if (Math.abs(from.top - to.top) < 8) {
        y1 = y2 = onward ? Math.min(from.top, to.top) : Math.max(from.foot, to.foot);
        leave = arrive = Math.min(32, 12 + Math.abs(x2 - x1) / 12) * (onward ? -1 : 1);
      } else [y1, y2, leave, arrive] = onward ? [from.foot, to.top, 24, -24] : [from.top, to.foot, -24, 24];
      const size = .8 + 7 * Math.sqrt(value), up = arrive < 0 ? 1 : -1, tip = 2.5 + size / 2, shade = Math.min(1, .25 + .75 * Math.sqrt(value));
      make("path", { class: source, d: `M${x1} ${y1}C${x1} ${y1 + leave} ${x2} ${y2 + arrive} ${x2} ${y2 - up * tip}`, "stroke-width": size, "stroke-opacity": shade }, svg);
      make("polygon", { class: source, points: `${x2},${y2} ${x2 - tip},${y2 - up * 2 * tip} ${x2 + tip},${y2 - up * 2 * tip}`, "fill-opacity": Math.min(1, shade + .2) }, svg);
    }
    const line = one.lines.map(([source, target, average, weight]) => `${named[source]} → ${named[target]} ${(mean ? average : weight).toFixed(2)}`).join(", ");
    says.textContent = line ? `Attention by ${mean ? "the mean of all heads" : one.strongest}: ${line}` : "Not predicted: no lines.";
    for (const button of place.querySelectorAll("[data-triple]")) button.setAttribute("aria-pressed", String(Number(button.dataset.triple) === chosen));
  }
  for (const button of place.querySelectorAll("[data-triple]")) button.addEventListener("click", () => { chosen = Number(button.dataset.triple); show(); });
  place.addEventListener("toggle", show);
  new ResizeObserver(show).observe(text);
  return show;
}
function chooseTriples(place, texts) {
  const select = place.querySelector("select");
  const all = [...place.querySelectorAll("[data-text]")].map((one, index) => drawTriples(one, texts[index], () => select.value));
  select.addEventListener("change", () => { for (const show of all) show(); });
}
