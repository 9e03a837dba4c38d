"""What a page offers to a keyboard and to fingers: names, sizes and the order of its elements."""

from __future__ import annotations

from typing import Any

# Every visible element that can be used, with a number in `data-audit`: how it is called and how
# large it is. A link inside a sentence may be as small as its words (WCAG 2.5.8, inline).
OFFERED = """() => {
  const kinds = "a[href], button, input, select, textarea, summary, [tabindex], [role=button]";
  const named = (one) => {
    const by = (one.getAttribute("aria-labelledby") ?? "").split(" ").filter(Boolean)
      .map((id) => document.getElementById(id)?.textContent ?? "").join(" ");
    const labels = [...(one.labels ?? [])].map((label) => label.textContent).join(" ");
    const words = one.matches("input, select, textarea") ? "" : one.textContent;
    const parts = [by, one.getAttribute("aria-label"), labels, words, one.title];
    return (parts.find((part) => part?.trim()) ?? "").trim().slice(0, 60);
  };
  const inline = (one) =>
    one.matches("a, w, span") && getComputedStyle(one).display.startsWith("inline");
  const out = [];
  for (const one of document.querySelectorAll(kinds)) {
    const box = one.getBoundingClientRect();
    const shown = box.width && box.height && one.checkVisibility({ visibilityProperty: true });
    if (!shown || one.disabled || one.closest("[inert], [aria-hidden=true]")) continue;
    const area = one.closest("label")?.getBoundingClientRect() ?? box;
    one.dataset.audit = out.length;
    one.attlasLook = LOOK(one);
    out.push({
      what: (one.tagName.toLowerCase() + "." + one.getAttribute("class")).slice(0, 50),
      view: one.closest("[data-view]")?.dataset.view ?? "page",
      name: named(one),
      width: Math.max(box.width, area.width),
      height: Math.max(box.height, area.height),
      inline: inline(one),
      stop: one.tabIndex >= 0 && (one.type !== "radio" || one.checked),
    });
  }
  return out;
}"""
# The number of the focused element, and whether its focus is seen: what has changed with it.
FOCUSED = """() => {
  const one = document.activeElement;
  return [one.dataset?.audit ?? null, one.attlasLook !== LOOK(one)];
}"""
# What may show the focus: the element, or what it is drawn of.
LOOK = """(one) => [one, ...[...one.querySelectorAll("*")].slice(0, 12)].map((part) => {
  const style = getComputedStyle(part);
  const line = style.outlineStyle === "none" ? "" : style.outlineWidth + style.outlineColor;
  return [line.startsWith("0px") ? "" : line, style.boxShadow, style.borderColor, style.stroke,
    style.textDecorationLine].join("|");
}).join()"""


def offered(page: Any) -> list[dict[str, Any]]:
    """What a reader can use, in the order of the page."""
    return list(page.evaluate(_with_look(OFFERED)))


def _with_look(code: str) -> str:
    return code.replace("LOOK(", f"({LOOK})(")


def unnamed(found: list[dict[str, Any]]) -> list[str]:
    """Elements without a name that can be read out."""
    return [f"{one['view']}: {one['what']}" for one in found if not one["name"]]


def too_small(found: list[dict[str, Any]], least: float = 24) -> list[str]:
    """Elements that a finger does not meet."""
    return [
        f"{one['view']}: {one['what']} {one['name']!r} {one['width']:.0f} x {one['height']:.0f}"
        for one in found
        if not one["inline"] and min(one["width"], one["height"]) < least - 0.5
    ]


def tabbed(page: Any, most: int = 2_000) -> dict[int, bool]:
    """The elements that Tab reaches from the top, and whether the focus is seen on each."""
    page.evaluate("document.activeElement?.blur()")
    reached: dict[int, bool] = {}
    for _ in range(most):
        page.keyboard.press("Tab")
        number, seen = page.evaluate(_with_look(FOCUSED))
        if number is None:
            if page.evaluate("document.activeElement === document.body"):
                break
            continue
        if int(number) in reached:
            break
        reached[int(number)] = bool(seen)
    return reached
