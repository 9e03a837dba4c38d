// Tints the words of a text: which layer and head, what is hovered, what is clicked. Data as overlay.py packs it.
const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const code = new Uint8Array(128);
[...letters].forEach((letter, index) => { code[letter.charCodeAt(0)] = index; });
function unpack(text, from, count, scale) {
  const out = new Float32Array(count);
  for (let index = 0; index < count; index++) out[index] = (code[text.charCodeAt(from + index)] / 63) ** 2 * scale;
  return out;
}
// Tints 0 to 9 by value / uniform of each word, on a log scale: none at or below 1, the darkest at least 2.
function tintsAboveUniform(value, uniform, special) {
  const sizes = Array.from(value, (one, index) => uniform[index] > 0 ? Math.log2(Math.max(1, one / uniform[index])) : 0);
  const ordinary = sizes.filter((_, index) => !special(index)).sort((a, b) => b - a);
  const top = Math.max(1, ordinary.length ? ordinary[Math.floor(ordinary.length / 100)] : 1);
  return { tints: sizes.map((size) => Math.max(0, Math.min(9, Math.floor(size / top * 9 + .5)))), most: 2 ** top };
}
// What the tints of a text mean, in numbers.
function uniformKey(most) {
  const key = document.createElement("span");
  key.className = "key";
  const shades = [0, 3, 6, 9].map((tint) => {
    const one = document.createElement("b");
    one.className = "t" + tint;
    one.textContent = tint ? "×" + (most ** (tint / 9)).toFixed(1) + (tint === 9 ? " or more" : "") : "×1 or less";
    return one;
  });
  key.append("attention received, relative to uniform attention: ", ...shades.flatMap((one) => [one, " "]));
  return key;
}
function onWord(place, number, choose) {
  place.addEventListener("click", (event) => {
    const index = number.get(event.target);
    if (index !== undefined) choose(index);
  });
}
function tintWords(place, data) {
  const [layers, heads, count] = data.shape;
  const words = [...place.querySelectorAll("w")];
  const special = new Set(data.special);
  const uniforms = data.uniform_scales.map((scale, row) => unpack(data.uniform, row * count, count, scale));
  const mean = uniforms[0].map((_, word) => uniforms.reduce((sum, row) => sum + row[word], 0) / uniforms.length);
  let uniform = mean;
  const rows = [];
  for (let row = 0; row < layers * heads; row++) rows.push(unpack(data.values, row * count, count, data.scales[row]));
  const controls = document.createElement("div");
  controls.className = "controls";
  const choose = (name, options) => {
    const label = document.createElement("label"), select = document.createElement("select");
    select.dataset.choose = name;
    for (const [value, text] of options) select.add(new Option(text, value));
    label.append(name + " ", select);
    controls.append(label, " ");
    return select;
  };
  const layer = choose("layer", [["all", "mean of all"], ...(data.importance ? [["scaled", "all, heads weighted by importance"]] : []), ...Array.from({ length: layers }, (_, index) => [index, index])]);
  const head = data.averaged ? null : choose("head", [["all", "mean of all"], ...Array.from({ length: heads }, (_, index) => [index, index])]);
  const key = document.createElement("div");
  const says = document.createElement("div");
  says.className = "says id";
  place.before(controls, key);
  place.after(says);
  let value = new Float32Array(count);
  function show() {
    value = new Float32Array(count);
    const oneLayer = layer.value === "all" || layer.value === "scaled" ? -1 : Number(layer.value), oneHead = !head || head.value === "all" ? -1 : Number(head.value);
    uniform = oneLayer >= 0 && uniforms.length > 1 ? uniforms[oneLayer] : mean;
    let total = 0;
    for (let row = 0; row < rows.length; row++) {
      if ((oneLayer >= 0 && Math.floor(row / heads) !== oneLayer) || (oneHead >= 0 && row % heads !== oneHead)) continue;
      const weight = layer.value === "scaled" ? data.importance[row] : 1;
      total += weight;
      for (let word = 0; word < count; word++) value[word] += weight * rows[row][word];
    }
    for (let word = 0; word < count; word++) value[word] /= total || 1;
    const { tints, most } = tintsAboveUniform(value, uniform, (index) => special.has(index));
    key.replaceChildren(uniformKey(most));
    words.forEach((word, index) => {
      word.className = "t" + tints[index] + (special.has(index) ? " mark" : "") + (chosen === index ? " chosen" : "");
    });
  }
  let chosen = -1;
  const number = new Map(words.map((word, index) => [word, index]));
  const describe = (index) => "“" + words[index].textContent + "” (word " + index + "): receives " + value[index].toFixed(2) + ", uniform attention " + uniform[index].toFixed(2);
  place.addEventListener("mouseover", (event) => {
    const index = number.get(event.target);
    if (index !== undefined && !event.target.title) event.target.title = describe(index);
  });
  function list(side, index) {
    const { ranks, scale, cells } = data.tops, out = [];
    for (let rank = 0; rank < ranks; rank++) {
      const at = 5 * ((side * count + index) * ranks + rank), digit = (shift) => code[cells.charCodeAt(at + shift)];
      const weight = ((digit(3) * 64 + digit(4)) / 4095) ** 2 * scale;
      if (weight > 0) out.push(words[digit(0) * 4096 + digit(1) * 64 + digit(2)].textContent + " " + weight.toFixed(2));
    }
    return out.join(", ");
  }
  function tell() {
    says.textContent = chosen < 0 ? (data.tops ? "Click a word to see what it attends to and what attends to it." : "") : describe(chosen) + ".";
    if (chosen >= 0 && data.tops) for (const [side, what] of [[0, "Attends most to: "], [1, "Attended most by: "]]) {
      const line = document.createElement("div");
      line.textContent = what + list(side, chosen) + (side ? "" : " (mean of all heads)");
      says.append(line);
    }
  }
  onWord(place, number, (index) => {
    chosen = chosen === index ? -1 : index;
    show();
    tell();
  });
  for (const select of [layer, head]) select?.addEventListener("change", () => { for (const word of words) word.removeAttribute("title"); show(); tell(); });
  show();
  tell();
}
// Tints the words of a text by the scores of methods: for and against, or attention. Data as score_overlay packs it.
function tintScores(place, data) {
  const [methods, count] = data.shape;
  const words = [...place.querySelectorAll("w")];
  const special = new Set(data.special);
  const rows = [];
  for (let row = 0; row < methods; row++) {
    const values = unpack(data.values, row * count, count, data.scales[row]);
    for (let word = 0; word < count; word++) if (data.against[row][word] === "-") values[word] = -values[word];
    rows.push(values);
  }
  const controls = document.createElement("div");
  controls.className = "controls";
  const label = document.createElement("label"), select = document.createElement("select");
  select.dataset.choose = "method";
  data.methods.forEach((name, index) => select.add(new Option(name.replaceAll("_", " "), index)));
  label.append("method ", select);
  const key = document.createElement("span");
  key.className = "key";
  controls.append(label, " ", key);
  const says = document.createElement("div");
  says.className = "says id";
  place.before(controls);
  place.after(says);
  let chosen = -1;
  const number = new Map(words.map((word, index) => [word, index]));
  const short = (value) => (value > 0 ? "+" : "") + (Math.abs(value) >= .0005 || value === 0 ? value.toFixed(3) : value.toExponential(1));
  function ranks(row) {
    return [...rows[row].keys()].filter((word) => !special.has(word)).sort((a, b) => Math.abs(rows[row][b]) - Math.abs(rows[row][a]) || a - b);
  }
  const orders = rows.map((_, row) => ranks(row));
  function show() {
    const row = Number(select.value), value = rows[row], signed = data.signed[row];
    const ordinary = orders[row].map((word) => Math.abs(value[word]));
    const top = ordinary.length ? ordinary[Math.floor(ordinary.length / 100)] : 1;
    words.forEach((word, index) => {
      const tint = Math.max(0, Math.min(9, Math.floor(Math.abs(value[index]) / (top || 1) * 9 + .5)));
      word.className = (signed ? (value[index] < 0 ? "n" : "p") : "t") + tint + (special.has(index) ? " mark" : "") + (chosen === index ? " chosen" : "");
      word.title = words[index].textContent + ": " + short(value[index]);
    });
    key.innerHTML = signed ? '<b class="p6">supports</b> <b class="n6">opposes</b> the prediction' : '<b class="t6">more attention</b> (plain scale: no control)';
  }
  function tell() {
    says.replaceChildren();
    if (chosen < 0) { says.textContent = "Click a word for its score by every method."; return; }
    const parts = data.methods.map((name, row) => {
      const rank = orders[row].indexOf(chosen);
      return name.replaceAll("_", " ") + " " + short(rows[row][chosen]) + (rank < 0 ? "" : " (rank " + (rank + 1) + ")");
    });
    says.textContent = "“" + words[chosen].textContent + "” (word " + chosen + " of " + count + "): " + parts.join(", ") + ".";
  }
  onWord(place, number, (index) => {
    chosen = chosen === index ? -1 : index;
    show();
    tell();
  });
  select.addEventListener("change", () => { show(); tell(); });
  show();
  tell();
}
function tint(place, data) {
  if (data.methods) tintScores(place, data); else tintWords(place, data);
}
