// A text of a study, read by a model of the server: by itself if the study's own model was named.
import { element } from "attlas/dom.js";
import { look } from "attlas.web/look.js";

// What the tables of the study have, which the views of the model show as well.
const REPLACED = ["Attention received", "Attribution", "Text"];

export default {
  async render({ model, el }) {
    const { study, text, models, own } = model.get("data");
    const place = element("div", { class: "result" });
    const read = async (id) => {
      const body = { model: id, text };
      const known = await look(place, `/api/studies/${study}/looks`, body, model.state, { study });
      for (const part of known ? document.querySelectorAll("[data-part]") : []) {
        part.hidden = REPLACED.includes(part.dataset.part);
      }
    };
    el.classList.add("attlas-of-study");
    if (own) {
      el.replaceChildren(place);
      read(own);
      return;
    }
    const select = element("select", { "aria-label": "Model" });
    select.append(...models.map(({ id, name }) => new Option(name, id)));
    const go = element("button", { type: "button" }, "Read with this model");
    go.addEventListener("click", () => read(select.value));
    const note = "The model of this study was not named at the start (--model).";
    const bar = element("p", {}, element("span", { class: "grey" }, note), " ", select, " ", go);
    el.replaceChildren(bar, place);
  },
};
