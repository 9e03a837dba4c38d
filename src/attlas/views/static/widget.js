// A widget of a notebook: its parts, which share the values of one model. Data come with it, or,
// if the notebook does not store them, from the kernel; until then a static picture is shown.
import { onTheme, theme } from "attlas/colour.js";
import { element } from "attlas/dom.js";
import { Model } from "attlas/model.js";

const WAIT = 400; // milliseconds before the static picture is shown
const SILENT = 4000; // after which the note says that the kernel does not answer
const AT_ONCE = 2_000_000; // bytes; servers of notebooks drop messages that come faster
const RATE = 800; // bytes per millisecond after that
const ABSENT =
  "The data of this view are not stored in the notebook. Run the cell again to see it; if the " +
  "kernel is busy, the view appears when the running cells have finished.";
const sleep = (time) => new Promise((done) => setTimeout(done, time));
const loaded = new WeakMap(); // the data of parts by model

// The answer of the kernel to a message.
function answer(model, message) {
  return new Promise((done, fail) => {
    const hear = (content, buffers) => {
      if (content?.part !== message.part || (content.at ?? message.at) !== message.at) return;
      model.off("msg:custom", hear);
      if (content.kind === "data") done([content, bytesOf(buffers[0])]);
      else fail(new Error(content.message));
    };
    model.on("msg:custom", hear);
    model.send(message);
  });
}

function bytesOf(buffer) {
  if (!ArrayBuffer.isView(buffer)) return new Uint8Array(buffer);
  return new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength);
}

// The data of a part, piece by piece, not faster than a server passes them on.
async function fetched(model, part, report) {
  const pieces = [];
  let at = 0;
  for (;;) {
    const [{ total }, bytes] = await answer(model, { kind: "data", part, at });
    pieces.push(bytes);
    at += bytes.length;
    if (at >= total) break;
    report(at, total);
    if (at >= AT_ONCE) await sleep(bytes.length / RATE);
  }
  return JSON.parse(await new Blob(pieces).text());
}

function dataOf(model, part, report) {
  if (!loaded.has(model)) loaded.set(model, new Map());
  const known = loaded.get(model);
  const stored = model.get("stored")?.[part];
  if (!known.has(part)) {
    const data = stored ? Promise.resolve(JSON.parse(stored)) : fetched(model, part, report);
    known.set(part, data);
    data.catch(() => known.delete(part));
  }
  return known.get(part);
}

// One part in its own element, or the static picture as long as there are no data.
async function drawPart(view, { model, part, el, picture, signal }) {
  const note = element("p", { class: "note", role: "status" });
  const mega = (bytes) => (bytes / 1e6).toFixed(1);
  const report = (at, total) => {
    note.textContent = `Loading ${mega(at)} of ${mega(total)} MB`;
  };
  const show = (words) => {
    note.textContent = words;
    if (!note.parentNode) el.replaceChildren(note, ...picture);
  };
  const waits = [
    setTimeout(() => show("Loading"), WAIT),
    setTimeout(() => note.textContent === "Loading" && show(ABSENT), SILENT),
  ];
  try {
    const data = await dataOf(model, part, report);
    waits.forEach(clearTimeout);
    if (signal.aborted) return;
    el.replaceChildren();
    await view.render({ model: new Model(data, model), el, signal });
    el.dataset.drawn = "";
  } catch (problem) {
    waits.forEach(clearTimeout);
    show(`This view could not be drawn: ${problem.message}`);
  }
}

// The elements of the static picture; scripts in it would not run.
function parsed(html) {
  return [...new DOMParser().parseFromString(html ?? "", "text/html").body.children];
}

export function widgetOf(views) {
  return {
    render({ model, el, signal }) {
      const own = new AbortController(); // older hosts give no signal
      signal?.addEventListener("abort", () => own.abort());
      const frame = element("div", { class: "attlas-widget", dir: "auto" });
      const themed = () => (frame.dataset.theme = theme());
      themed();
      onTheme(themed, own.signal);
      const body = element("div", { class: model.get("layout_kind") });
      model.get("parts").forEach(({ module, kind }, part) => {
        const place = element("div", { class: kind, "data-part": module });
        const picture = part ? [] : parsed(model.get("picture"));
        body.append(place);
        const options = { model, part, el: place, picture, signal: own.signal };
        drawPart(views[module], options);
      });
      const title = element("p", { class: "headline", dir: "auto" }, model.get("title"));
      if (title.textContent) frame.append(title);
      frame.append(body);
      el.replaceChildren(frame);
      return () => own.abort();
    },
  };
}
