// Elements in one call: element("button", { type: "button" }, "text", child).
const SVG = "http://www.w3.org/2000/svg";

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null && value !== false) {
      node.setAttribute(name, value === true ? "" : value);
    }
  }
  node.append(...children);
  return node;
}

export function element(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

export function shape(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

// A menu with its label; `options` are pairs of value and words, or groups of them by name.
export function menu(label, name, options) {
  const select = element("select", { "data-choose": name });
  const added = (pairs) => pairs.map(([value, words]) => new Option(words, value));
  if (Array.isArray(options)) select.append(...added(options));
  else {
    for (const [group, pairs] of Object.entries(options)) {
      select.append(element("optgroup", { label: group }, ...added(pairs)));
    }
  }
  return { select, label: element("label", {}, label + " ", select) };
}
