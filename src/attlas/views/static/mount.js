// Draws the views of a page: an element with data-view="MODULE" and data-number="K" shows item K
// of the data of that module, or of the module data-of="MODULE". A server has modules at addresses.
import { Model, State } from "attlas/model.js";

export async function mount(root, data, values = {}, address = (name) => name) {
  const state = new State(values);
  const draw = async (el) => {
    const name = el.dataset.view;
    try {
      const view = (await import(address(name))).default;
      const own = data[el.dataset.of ?? name][Number(el.dataset.number)];
      await view.render({ model: new Model(own, state), el });
      el.dataset.drawn = "";
    } catch (problem) {
      el.textContent = "This view could not be drawn: " + problem;
      throw problem;
    }
  };
  await Promise.all([...root.querySelectorAll("[data-view]")].map(draw));
  return state;
}
