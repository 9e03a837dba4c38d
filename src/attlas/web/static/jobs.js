// Studies and explanations in the background: a list that follows them, and a form for new ones.
import { element } from "attlas/dom.js";
import { json, sentence } from "attlas.web/remote.js";

const EVERY = 1000; // milliseconds
const NOTE =
  "Jobs survive a closed page. When the server ends, they are interrupted, and resume here or " +
  "with the same command in the terminal.";
const minutes = (seconds) => {
  return seconds < 90 ? `${Math.ceil(seconds)} s left` : `${Math.round(seconds / 60)} min left`;
};

function stateOf({ state, left, ahead, done, total }) {
  if (state === "queued") return ahead > 1 ? `${ahead - 1} before it` : "next";
  if (state === "running" && left !== null) return minutes(left);
  if (state === "running" && total) return `${done} of ${total}`;
  return state;
}

function stepOf(job) {
  const { state, step, done, total, problem, command } = job;
  const words = {
    queued: "waiting: one job at a time",
    failed: problem,
    interrupted: `interrupted${done ? ` at ${done} of ${total}` : ""}; resume continues there`,
    cancelled: `cancelled${done ? ` at ${done} of ${total}` : ""}; resume continues there`,
    finished: "finished",
  };
  const counts = total ? ` ${done.toLocaleString("en")} of ${total.toLocaleString("en")}` : "";
  const parts = [element("div", {}, words[state] ?? `${step || "starting"}${counts}`)];
  if (state === "running" && total) {
    parts.push(element("progress", { max: total, value: done, "aria-label": job.name }));
  }
  parts.push(element("code", {}, command));
  return parts;
}

class Jobs {
  constructor({ kinds, corpora, models, jobs }, el) {
    Object.assign(this, { kinds, el });
    this.says = element("div", {});
    this.body = element("tbody", {});
    const head = ["job", "data, model", "step", "", ""].map((one) => {
      return element("th", { scope: "col" }, one);
    });
    const table = element("table", {}, element("thead", {}, element("tr", {}, ...head)), this.body);
    el.classList.add("attlas-jobs");
    el.replaceChildren(
      element("h1", {}, "Jobs"),
      this.form(corpora, models),
      this.says,
      element("div", { class: "wide" }, table),
      element("p", { class: "grey" }, NOTE),
    );
    this.show(jobs);
  }
  form(corpora, models) {
    const choice = (label, options) => {
      const select = element("select", { name: label });
      select.append(...options.map(([value, words]) => new Option(words, value)));
      return [select, element("label", {}, `${label} `, select)];
    };
    const numbered = (names) => names.map((name, at) => [at, name]);
    const [kind, kinds] = choice("job", this.kinds.map(({ name }) => [name, name]));
    const [data, datas] = choice("data", numbered(corpora));
    const [model, chosen] = choice("model", numbered(models));
    const name = element("input", {
      name: "name", required: true, maxlength: 40, pattern: "[a-z0-9][a-z0-9\\-]*", size: 14,
      title: "small letters, digits and hyphens", placeholder: "my-study", autocomplete: "off",
    });
    const options = element("span", { class: "row" });
    const title = element("p", { class: "grey" });
    const change = () => {
      const one = this.kinds.find((own) => own.name === kind.value);
      title.textContent = one.title;
      options.replaceChildren(...Object.entries(one.options).map(([own, values]) => {
        return choice(own, values.map((value) => [value, value]))[1];
      }));
    };
    kind.addEventListener("change", change);
    change();
    const go = element("button", { type: "submit", class: "go" }, "Start");
    const form = element("form", {}, kinds, datas, chosen, options,
      element("label", {}, "name ", name), go, title);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const own = [...options.querySelectorAll("select")].map((one) => [one.name, one.value]);
      this.change("/api/jobs", {
        kind: kind.value,
        data: Number(data.value),
        model: Number(model.value),
        name: name.value,
        options: Object.fromEntries(own),
      });
    });
    return form;
  }
  async change(path, body = {}) {
    this.says.replaceChildren();
    try {
      await json(path, body);
      this.show(await json("/api/jobs"));
    } catch (problem) {
      this.says.replaceChildren(sentence(problem));
    }
  }
  show(jobs) {
    const shown = JSON.stringify(jobs);
    if (shown !== this.shown) this.body.replaceChildren(...jobs.map((job) => this.row(job)));
    this.shown = shown;
    clearTimeout(this.timer);
    const runs = jobs.some(({ state }) => state === "running" || state === "queued");
    if (runs) this.timer = setTimeout(() => this.follow(), EVERY);
  }
  async follow() {
    try {
      this.show(await json("/api/jobs"));
    } catch (problem) {
      this.says.replaceChildren(sentence(problem));
    }
  }
  row(job) {
    const cells = [
      element("th", { scope: "row" }, job.name, element("div", { class: "grey" }, job.kind)),
      element("td", {}, job.data, element("div", { class: "grey" }, job.model)),
      element("td", {}, ...stepOf(job)),
      element("td", { class: "grey" }, stateOf(job)),
      element("td", {}, this.action(job)),
    ];
    return element("tr", { "data-job": job.name, "data-state": job.state }, ...cells);
  }
  action({ name, state, study }) {
    if (state === "finished") {
      return study ? element("a", { href: `/s/${study}` }, "open") : "";
    }
    const verb = state === "running" || state === "queued" ? "cancel" : "resume";
    const button = element("button", { type: "button", "aria-label": `${verb} ${name}` }, verb);
    button.addEventListener("click", () => this.change(`/api/jobs/${name}/${verb}`));
    return button;
  }
}

export default {
  render({ model, el }) {
    new Jobs(model.get("data"), el);
  },
};
