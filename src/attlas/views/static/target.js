// The part of a page that a link leads to. If it is folded, it opens; and as a page grows while its
// charts are drawn, it stays in view until the reader moves.
export function keepTarget() {
  let target = null;
  const aim = () => {
    target = document.getElementById(location.hash.slice(1));
    const fold = target?.querySelector("details.folded");
    if (fold) fold.open = true;
    target?.scrollIntoView();
  };
  const release = () => {
    target = null;
  };
  for (const name of ["wheel", "touchstart", "keydown", "pointerdown"]) {
    addEventListener(name, release, { passive: true });
  }
  addEventListener("hashchange", aim);
  new ResizeObserver(() => target?.scrollIntoView()).observe(document.body);
  aim();
}
