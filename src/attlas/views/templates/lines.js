// Words on both sides and a line for each weight between them: who attends on the left, who is attended to on the right. Data as lines.py packs it.
const lineLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const lineCode = new Uint8Array(128);
[...lineLetters].forEach((letter, index) => { lineCode[letter.charCodeAt(0)] = index; });
function unpackLine(text, from, count, scale) {
  const out = new Float32Array(count);
  for (let index = 0; index < count; index++) out[index] = (lineCode[text.charCodeAt(from + index)] / 63) ** 2 * scale;
  return out;
}
const SVG = "http://www.w3.org/2000/svg";
function drawLines(place, words, weight, gold) {
  const step = 22, count = words.length;
  const longest = Math.max(...words.map((word) => word.length), 4);
  const side = Math.min(240, 8.2 * longest + 16), middle = 230, width = 2 * side + middle;
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", `0 0 ${width} ${count * step + 8}`);
  svg.setAttribute("width", width);
  svg.setAttribute("class", "lines");
  const make = (name, attributes, parent) => {
    const one = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) one.setAttribute(key, value);
    parent.append(one);
    return one;
  };
  const at = (word) => step * word + step / 2 + 4;
  const drawn = [], known = new Set(gold.map(([query, key]) => query * count + key));
  for (let query = 0; query < count; query++) for (let key = 0; key < count; key++) {
    const value = weight(query, key), is = known.has(query * count + key);
    if (value < .02 && !is) continue;
    const line = make("line", { x1: side, y1: at(query), x2: side + middle, y2: at(key), class: is ? "gold" : "", "stroke-width": is ? 2.4 : 1.8, "stroke-opacity": Math.min(1, Math.max(value, is ? .12 : 0)) }, svg);
    drawn.push({ line, query, key, value });
  }
  words.forEach((word, index) => {
    const label = word.length > 28 ? word.slice(0, 27) + "…" : word;
    for (const left of [true, false]) {
      const text = make("text", { x: left ? side - 6 : side + middle + 6, y: at(index) + 4.5, "text-anchor": left ? "end" : "start", tabindex: 0 }, svg);
      text.textContent = label;
      const only = () => {
        for (const one of drawn) one.line.classList.toggle("off", (left ? one.query : one.key) !== index);
        const most = drawn.filter((one) => (left ? one.query : one.key) === index).sort((a, b) => b.value - a.value).slice(0, 4);
        says.textContent = "“" + word + "” " + (left ? "attends to " : "is attended to by ") + (most.map((one) => words[left ? one.key : one.query] + " " + one.value.toFixed(2)).join(", ") || "nothing above 0.02");
      };
      const all = () => { for (const one of drawn) one.line.classList.remove("off"); says.textContent = ""; };
      for (const event of ["mouseenter", "focus"]) text.addEventListener(event, only);
      for (const event of ["mouseleave", "blur"]) text.addEventListener(event, all);
    }
  });
  const says = document.createElement("div");
  says.className = "says id";
  place.replaceChildren(svg, says);
}
function chooseLines(place, group) {
  const controls = document.createElement("div"), drawing = document.createElement("div");
  controls.className = "controls";
  const label = document.createElement("label"), select = document.createElement("select");
  select.dataset.choose = "example";
  group.forEach((one, index) => select.add(new Option(one.title, index)));
  label.append("head and sentence ", select);
  const key = document.createElement("span");
  key.className = "key";
  key.innerHTML = '<b class="p6">the relation</b> <b class="t6">other attention</b>';
  controls.append(label, " ", key);
  place.replaceChildren(controls, drawing);
  function show() {
    const one = group[Number(select.value)], count = one.words.length;
    const rows = one.scales.map((scale, row) => unpackLine(one.values, row * count, count, scale));
    drawLines(drawing, one.words, (query, key) => rows[query][key], one.gold);
  }
  select.addEventListener("change", show);
  show();
}
