// The frame of every page: draws its views, keeps what is chosen in the address, switches between
// light and dark, and copies the link to what is shown.
import { drawCharts } from "attlas/charts.js";
import { theme } from "attlas/colour.js";
import { mount } from "attlas/mount.js";
import { inflatedJson } from "attlas/packing.js";
import { keepTarget } from "attlas/target.js";
import { fillStudies } from "attlas.web/studies.js";

// shared values that an address has
const KEPT = [
  ...["head", "column", "across", "cut", "threshold", "selection"],
  ...["tint", "units", "sink", "method", "view", "region", "attention", "keep"],
];
const root = document.documentElement;
const content = (name) => document.getElementById(name)?.textContent;
const json = (name) => JSON.parse(content(name) ?? "{}");

function read(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
const written = (value) => (typeof value === "string" ? value : JSON.stringify(value));
const isNone = (value) => (value ?? "{}") === "{}" || JSON.stringify(value) === "{}";

// What the address says is chosen.
function chosenIn(query) {
  const has = KEPT.filter((name) => query.has(name));
  const own = root.dataset.page === "head" ? { head: location.pathname.split("/").pop() } : {};
  return { ...Object.fromEntries(has.map((name) => [name, read(query.get(name))])), ...own };
}

// The page of a head has its name in the path; elsewhere it is in the query.
function addressOf(name, value) {
  const url = new URL(location);
  if (name === "head" && root.dataset.page === "head") {
    url.pathname = url.pathname.replace(/[^/]*$/, value || "");
  } else if (isNone(value)) url.searchParams.delete(name);
  else url.searchParams.set(name, written(value));
  return url;
}

// Links to other pages of the study keep the chosen head; those to its own page name it.
function updateLinks(state) {
  const head = state.get("head");
  for (const link of document.querySelectorAll("a[data-keep]")) {
    const url = new URL(link.href);
    if (head) url.searchParams.set("head", head);
    else url.searchParams.delete("head");
    link.href = url.pathname + url.search + url.hash;
  }
  for (const link of document.querySelectorAll("a[data-own-page]")) {
    link.hidden = !head || root.dataset.page === "head";
    if (head) link.href = link.dataset.ownPage + head;
    link.textContent = head ? `page of ${head}` : "";
  }
}

function keepInAddress(state) {
  for (const name of KEPT) {
    state.on("change:" + name, () => {
      const value = state.get(name);
      if (name !== "head" || value || root.dataset.page !== "head") {
        history.replaceState(null, "", addressOf(name, value));
      }
      if (name === "head") updateLinks(state);
    });
  }
  updateLinks(state);
}

async function copy(button, words) {
  const name = button.textContent;
  await navigator.clipboard.writeText(words);
  button.textContent = "copied";
  setTimeout(() => (button.textContent = name), 2000);
}

function startControls() {
  document.getElementById("theme").addEventListener("click", () => {
    root.dataset.theme = theme() === "dark" ? "light" : "dark";
    localStorage.setItem("attlas-theme", root.dataset.theme);
  });
  document.getElementById("study")?.addEventListener("change", (event) => {
    location.assign(event.target.value);
  });
  for (const select of document.querySelectorAll("select[data-query]")) {
    select.addEventListener("change", () => {
      const url = new URL(location);
      if (select.value) url.searchParams.set(select.dataset.query, select.value);
      else url.searchParams.delete(select.dataset.query);
      location.assign(url);
    });
  }
  for (const button of document.querySelectorAll("#copy-link, button[data-copy]")) {
    button.hidden = !navigator.clipboard; // which browsers give this machine or https only
    button.addEventListener("click", () => copy(button, button.dataset.copy ?? location.href));
  }
  const tab = document.querySelector(".tabs [aria-current]");
  if (tab) tab.parentNode.scrollLeft = tab.offsetLeft - tab.parentNode.offsetLeft - tab.offsetWidth;
  keepTarget();
}

async function start() {
  startControls();
  const charts = content("charts");
  if (charts) drawCharts(document, await inflatedJson(charts));
  root.dataset.charts = "ready";
  const base = root.dataset.static;
  const chosen = { ...json("values"), ...chosenIn(new URLSearchParams(location.search)) };
  const state = await mount(document, json("views"), chosen, (name) => `${base}/${name}`);
  keepInAddress(state);
  root.dataset.ready = "";
  await fillStudies();
}

start();
