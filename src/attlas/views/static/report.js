// The frame of a report: its charts, the switch between light and dark, the contents on a phone,
// and the mark of the section that is being read.
import { drawCharts } from "attlas/charts.js";
import { theme } from "attlas/colour.js";
import { inflatedJson } from "attlas/packing.js";
import { keepTarget } from "attlas/target.js";

export function startReport(charts) {
  const root = document.documentElement;
  inflatedJson(charts).then((content) => {
    drawCharts(document, content);
    root.dataset.charts = "ready";
  });
  document.getElementById("theme").addEventListener("click", () => {
    root.dataset.theme = theme() === "dark" ? "light" : "dark";
  });
  const contents = document.querySelector(".contents");
  const narrow = matchMedia("(max-width: 760px)");
  const fit = () => (contents.open = !narrow.matches);
  narrow.addEventListener("change", fit);
  fit();
  contents.addEventListener("click", (event) => {
    if (narrow.matches && event.target.closest("a")) contents.open = false;
  });
  keepTarget();
  markSections(contents);
}

function markSections(contents) {
  const links = new Map();
  for (const link of contents.querySelectorAll("nav a:not(.home)")) {
    links.set(link.getAttribute("href").slice(1), link);
  }
  const seen = new Set();
  const observer = new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries) {
        const name = target.id || "top";
        if (isIntersecting) seen.add(name);
        else seen.delete(name);
      }
      const current = [...links.keys()].find((name) => seen.has(name));
      for (const [name, link] of links) {
        if (name === current) link.setAttribute("aria-current", "true");
        else link.removeAttribute("aria-current");
      }
    },
    { rootMargin: "0px 0px -70% 0px" },
  );
  for (const part of document.querySelectorAll("main > header, main > section")) {
    observer.observe(part);
  }
}
