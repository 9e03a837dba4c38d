// A text that a model reads on the server: how far it is, and then all of its views.
import { element } from "attlas/dom.js";
import { RemoteModel, json, sentence } from "attlas.web/remote.js";

const SOON = 1000; // milliseconds in which nothing is shown
const root = document.documentElement;
const plural = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
const wait = (time) => new Promise((resolve) => setTimeout(resolve, time));

// Starts a pass and shows its views in a place; the id of the pass, or null if there is none.
// Without a body the pass has been started before. `started` hears the id as soon as it is known.
export async function look(place, path, body, state, { study, started } = {}) {
  const bar = element("div", { class: "pass" });
  place.prepend(bar);
  try {
    let about = await json(path, body);
    started?.(about.id);
    const began = performance.now();
    while (about.state === "waiting" || about.state === "running") {
      const took = performance.now() - began;
      if (took > SOON) showProgress(bar, about);
      await wait(took > SOON ? 400 : 120);
      about = await json(`/api/looks/${about.id}`);
    }
    if (about.state === "failed") throw Object.assign(new Error(about.error), about);
    bar.replaceChildren();
    if (about.state === "cancelled") {
      bar.append(element("p", { class: "grey" }, "Cancelled."));
      return null;
    }
    await showLook(place, about.id, state, study);
    return about.id;
  } catch (problem) {
    bar.replaceChildren(sentence(problem));
    return null;
  }
}

function showProgress(bar, about) {
  const { state, title, step, done, total, left, ahead } = about;
  const queue = ahead === 1 ? "next in the queue" : `${ahead - 1} before it in the queue`;
  const more = left ? `, about ${Math.ceil(left)} s left` : "";
  const counts = total > 1 ? `: layer ${done} of ${total}${more}` : "";
  const words = state === "waiting" ? `${title}: ${queue}` : `${step || title}${counts}`;
  if (!bar.firstChild) {
    const says = element("span", { role: "status", "aria-live": "polite" });
    const button = element("button", { type: "button" }, "cancel");
    button.addEventListener("click", () => json(`/api/looks/${about.id}/cancel`, {}));
    const meter = element("progress", { "aria-label": "pass", max: 1, value: 0 });
    const note = "You can leave this page; the pass continues in the background.";
    bar.append(element("p", {}, says, " ", button), meter, element("p", { class: "grey" }, note));
  }
  bar.querySelector("span").textContent = words;
  bar.querySelector("progress").value = total ? done / total : 0;
}

// Draws a text that the server has read, with what its study knows of it.
async function showLook(place, id, state, study = "") {
  const { about, views } = await json(`/api/looks/${id}/views${study ? `?study=${study}` : ""}`);
  const { model, layers, heads, words, tokens, cut, brief } = about;
  const beyond = "beyond the model's maximum length were truncated";
  const shape = `${layers} layers × ${heads} heads`;
  const facts = [shape, plural(words, "word"), plural(tokens, "token")];
  if (cut) facts.push(`${plural(cut, "token")} ${beyond}`);
  const parts = Object.fromEntries(views.map((one) => [one.place, one]));
  const nodes = Object.fromEntries(views.map(({ place, kind = "" }) => {
    return [place, element("div", { class: kind, dir: "auto" })];
  }));
  const line = element("p", { class: "about" }, element("b", {}, model), ` ${facts.join(" · ")}`);
  const frame = element("div", { class: brief ? "frame brief" : "frame" });
  frame.append(nodes.text, element("div", { class: "heads" }, nodes.heads));
  const matrix = element("section", { class: "matrix", "aria-label": "Matrix" }, nodes.matrix);
  place.querySelector(".attlas-look")?.remove();
  const whole = element("div", { class: "attlas-look", "data-look": id }, line, frame, matrix);
  place.append(whole);
  const draw = async (name) => {
    const { module, data } = parts[name];
    const view = (await import(`${root.dataset.static}/${module}`)).default;
    await view.render({ model: new RemoteModel(data, state, id), el: nodes[name] });
  };
  await Promise.all([draw("text"), draw("heads")]);
  // the matrix of a head is large: it is drawn when it comes near
  const near = new IntersectionObserver((entries) => {
    if (!entries.some((one) => one.isIntersecting)) return;
    near.disconnect();
    draw("matrix");
  });
  near.observe(matrix);
  whole.dataset.drawn = "";
}
