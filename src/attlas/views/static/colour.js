// Colours of amounts and of signs, light and dark. A shade is 0 (no tint) to 1, or -1 to 1 with a
// sign; what a shade stands for is decided in Python (shades.py).
const AMOUNT = {
  light: ["#f6f9fc", "#dde9f5", "#b7d2ea", "#84b4db", "#4a8ec6", "#2068ab", "#0d447f", "#06264d"],
  dark: ["#1a232e", "#1c3350", "#1f4a73", "#2a6499", "#3a82bd", "#63a5da", "#9acaef", "#dceeff"],
};
const SIGN = {
  light: ["#5f2273", "#9a69a9", "#d3bddb", "#f5f5f5", "#c2e0c4", "#5fa56c", "#145c2b"],
  dark: ["#dcb0ec", "#a773bb", "#553561", "#1e2127", "#234a2d", "#4f9d60", "#98e0a8"],
};
const dark = globalThis.matchMedia?.("(prefers-color-scheme: dark)");

// The theme that a host shows by an attribute or a class: a page of ours and Sphinx, JupyterLab,
// Colab; VS Code, marimo. Without one it is that of the system.
const LIGHT = { "data-theme": "light", "data-jp-theme-light": "true", theme: "light" };
const DARK = { "data-theme": "dark", "data-jp-theme-light": "false", theme: "dark" };
const CLASSES = { light: ["vscode-light", "light"], dark: ["vscode-dark", "dark"] };
const shows = (node, values) =>
  Object.entries(values).some(([name, value]) => node.getAttribute(name) === value);
const has = (node, names) => names.some((name) => node.classList.contains(name));

export function theme() {
  for (const node of [document.documentElement, document.body].filter(Boolean)) {
    if (shows(node, DARK)) return "dark";
    if (shows(node, LIGHT)) return "light";
    if (has(node, CLASSES.dark)) return "dark";
    if (has(node, CLASSES.light)) return "light";
  }
  return dark?.matches ? "dark" : "light";
}

// Calls a listener whenever the theme changes, until the view is removed.
export function onTheme(listener, signal) {
  let last = theme();
  const changed = () => {
    if (theme() === last) return;
    last = theme();
    listener();
  };
  dark?.addEventListener("change", changed, { signal });
  const observer = new MutationObserver(changed);
  const attributeFilter = [...Object.keys(DARK), "class"];
  for (const node of [document.documentElement, document.body]) {
    observer.observe(node, { attributeFilter });
  }
  signal?.addEventListener("abort", () => observer.disconnect());
}

function between(stops, share) {
  const at = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
  const low = Math.min(Math.floor(at), stops.length - 2);
  const channel = (stop, index) => parseInt(stops[stop].slice(1 + 2 * index, 3 + 2 * index), 16);
  return [0, 1, 2].map((index) => {
    const from = channel(low, index);
    return Math.round(from + (channel(low + 1, index) - from) * (at - low));
  });
}

// Red, green and blue of a shade.
export function colour(shade, signed = false) {
  return signed ? between(SIGN[theme()], (shade + 1) / 2) : between(AMOUNT[theme()], shade);
}

// Black or white, whichever is easier to read on a colour.
export function ink(rgb) {
  const [red, green, blue] = rgb.map((one) => {
    const share = one / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  const luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  return luminance > 0.179 ? "#000000" : "#ffffff";
}

// Gives an element the colour of a shade, with readable letters; none at zero.
export function paint(node, shade, signed = false) {
  const tinted = Number.isFinite(shade) && shade !== 0;
  const rgb = tinted ? colour(shade, signed) : null;
  node.style.background = tinted ? `rgb(${rgb.join(" ")})` : "";
  node.style.color = tinted ? ink(rgb) : "";
}

// 256 colours as one number each, as a canvas takes them (RGBA in memory, little-endian).
export function palette(shadeOf = (code) => code / 255, signed = false) {
  return Uint32Array.from({ length: 256 }, (_, code) => {
    const [red, green, blue] = colour(shadeOf(code), signed);
    return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
  });
}
