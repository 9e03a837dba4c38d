// A long text at a glance: its tints on a canvas, and the part on the screen; a click jumps.
import { element } from "attlas/dom.js";

// `marks` are the numbers of words before which the map has a line.
export function minimap(place, words, nodes, { colourOf, isChosen, marks = [] }) {
  const canvas = element("canvas");
  const frame = element("div", { class: "frame" });
  place.append(canvas, frame);
  let boxes = null;
  // Where each word stands, as shares of the width and of the height.
  function measured() {
    const [width, height] = [words.clientWidth || 1, words.scrollHeight || 1];
    const line = nodes.length ? nodes[0].offsetHeight : 0;
    const first = words.offsetTop;
    return nodes.map((node) => [
      (node.offsetLeft - words.offsetLeft) / width,
      (node.offsetTop - first) / height,
      Math.min(node.offsetWidth / width, 1),
      Math.max(line, node.offsetHeight) / height,
    ]);
  }
  function follow() {
    const scale = place.clientHeight / (words.scrollHeight || 1);
    frame.style.top = `${words.scrollTop * scale}px`;
    frame.style.height = `${Math.max(6, words.clientHeight * scale)}px`;
  }
  function draw() {
    if (place.hidden || !boxes) return;
    const ratio = globalThis.devicePixelRatio || 1;
    const [width, height] = [place.clientWidth, place.clientHeight];
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    const mark = getComputedStyle(place).getPropertyValue("--mark");
    boxes.forEach(([x, y, wide, high], index) => {
      const chosen = isChosen(index);
      const fill = chosen ? mark : colourOf(index);
      if (!fill) return;
      pen.fillStyle = fill;
      const tall = Math.max(high * height * 0.8, chosen ? 3 : 1);
      pen.fillRect(x * (width - 4) + 2, y * height, Math.max(wide * (width - 4), 1), tall);
    });
    pen.fillStyle = getComputedStyle(place).getPropertyValue("--soft");
    for (const index of marks) pen.fillRect(0, boxes[index][1] * height - 0.5, width, 1.5);
  }
  function resize() {
    place.hidden = words.scrollHeight < 1.3 * words.clientHeight;
    if (place.hidden) return;
    boxes = measured();
    follow();
    draw();
  }
  const jump = (event) => {
    const box = place.getBoundingClientRect();
    const share = (event.clientY - box.top) / box.height;
    words.scrollTop = share * words.scrollHeight - words.clientHeight / 2;
  };
  place.addEventListener("pointerdown", (event) => {
    place.setPointerCapture(event.pointerId);
    jump(event);
  });
  place.addEventListener("pointermove", (event) => event.buttons && jump(event));
  words.addEventListener("scroll", follow, { passive: true });
  return { draw, resize };
}
