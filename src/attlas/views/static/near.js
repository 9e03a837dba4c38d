// Draws what is near the screen, and the rest when the reader comes near it or prints the page.
const NEAR = "800px";

export function whenNear(place, draw, signal) {
  let waits = true;
  const now = () => {
    if (!waits) return;
    waits = false;
    observer.disconnect();
    removeEventListener("beforeprint", now);
    draw();
  };
  const observer = new IntersectionObserver(
    (entries) => {
      if (entries.some((one) => one.isIntersecting)) now();
    },
    { rootMargin: NEAR },
  );
  observer.observe(place);
  addEventListener("beforeprint", now);
  signal?.addEventListener("abort", () => {
    waits = false;
    observer.disconnect();
    removeEventListener("beforeprint", now);
  });
}
