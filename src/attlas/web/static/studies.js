// The list of studies: what each found is computed after the list is shown.
import { element } from "attlas/dom.js";

const ORDER = ["signal", "weak", "nothing beyond chance"];

function verdicts(counts) {
  return ORDER.filter((name) => counts[name]).map((name) =>
    element("span", { class: "verdict " + name, title: name }, String(counts[name]) + " " + name),
  );
}

async function fill(row) {
  const [place, first] = [row.querySelector(".verdicts"), row.querySelector(".first")];
  const answer = await fetch(`/api/studies/${row.dataset.study}/summary`);
  if (!answer.ok) {
    place.textContent = "";
    first.textContent = (await answer.json()).error ?? "cannot be read";
    return;
  }
  const found = await answer.json();
  place.replaceChildren(...verdicts(found.verdicts));
  first.textContent = found.first ? found.first.sentence : "Nothing beyond its control.";
}

// One at a time: each reads tables.
export async function fillStudies() {
  for (const row of document.querySelectorAll("tr[data-study]")) await fill(row);
}
