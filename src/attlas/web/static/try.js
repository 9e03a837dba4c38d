// A text that a reader types, read by a model of the server. The text goes in the body of a
// request, never into the address.
import { element } from "attlas/dom.js";
import { look } from "attlas.web/look.js";

const NOTE =
  "Nothing is stored: the text stays in the memory of this server until others need the room.";

function form({ models, model, example }) {
  const text = element("textarea", {
    name: "text", rows: 4, "aria-label": "Text", dir: "auto", spellcheck: "false", required: true,
    placeholder: "Type or paste a text",
  });
  const select = element("select", { name: "model", "aria-label": "Model" });
  select.append(...models.map(({ id, name }) => new Option(name, id)));
  const chosen = new URLSearchParams(location.search).get("model") ?? model;
  if (models.some(({ id }) => id === chosen)) select.value = chosen;
  const go = element("button", { type: "submit", class: "go" }, "Look");
  const sample = element("button", { type: "button", class: "link" }, "an example");
  sample.addEventListener("click", () => (text.value = example));
  const bar = element("div", { class: "row" }, element("label", {}, "model ", select), go, sample);
  const node = element("form", {}, text, bar, element("p", { class: "grey" }, NOTE));
  return { text, select, go, node };
}

// The address names the model and the pass, so that a reload shows it again.
function keep(values) {
  const url = new URL(location);
  for (const [name, value] of Object.entries(values)) {
    if (value) url.searchParams.set(name, value);
    else url.searchParams.delete(name);
  }
  history.replaceState(null, "", url);
}

export default {
  render({ model, el }) {
    const { text, select, go, node } = form(model.get("data"));
    const place = element("div", { class: "result" });
    el.classList.add("attlas-try");
    el.replaceChildren(element("h1", {}, "Try a text"), node, place);
    const run = async () => {
      if (!text.value.trim()) return text.focus();
      go.disabled = true;
      place.classList.add("old");
      model.set("selection", {});
      const body = { model: select.value, text: text.value };
      const started = (id) => keep({ model: select.value, look: id });
      const id = await look(place, "/api/looks", body, model.state, { started });
      go.disabled = false;
      place.classList.remove("old");
      if (!id) keep({ look: "" });
    };
    node.addEventListener("submit", (event) => {
      event.preventDefault();
      run();
    });
    text.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) node.requestSubmit();
    });
    const known = new URLSearchParams(location.search).get("look");
    const follow = async () => {
      if (!(await look(place, `/api/looks/${known}`, undefined, model.state))) keep({ look: "" });
    };
    if (known) follow(); // the page does not wait for it
  },
};
