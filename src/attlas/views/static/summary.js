// What a study found, in short: the run, warnings, findings with verdicts. A click on a finding
// about a head chooses the head. Data: study_views.py.
import { element } from "attlas/dom.js";

const ICONS = { signal: "●", weak: "○", "nothing beyond chance": "–" };

function finding(model, { sentence, verdict, head }) {
  const icon = element("span", { "aria-hidden": "true" }, ICONS[verdict]);
  const about = element("span", { class: "verdict" }, icon, ` ${verdict}`);
  if (!head) return element("li", {}, sentence, " ", about);
  const button = element("button", { type: "button" }, head);
  button.addEventListener("click", () => {
    model.set("head", head);
    model.save_changes();
  });
  return element("li", {}, button, ` ${sentence.replace(`${head} `, "")} `, about);
}

export default {
  render({ model, el }) {
    const { facts, warnings, findings } = model.get("data");
    const rows = facts.map(([name, value]) =>
      element("tr", {}, element("th", { scope: "row" }, name), element("td", {}, value)),
    );
    const lines = warnings.map((one) => element("li", {}, one));
    const warning = element("div", { class: "warning", role: "note" }, element("ul", {}, ...lines));
    const none = element("p", {}, "Nothing beyond its control.");
    const list = element("ol", {}, ...findings.map((one) => finding(model, one)));
    el.classList.add("attlas-summary");
    el.replaceChildren(
      ...(lines.length ? [warning] : []),
      findings.length ? list : none,
      element("details", {}, element("summary", {}, "The run"), element("table", {}, ...rows)),
    );
  },
};
