// What a page asks the server for. Changes are sent as JSON with a header that other sites cannot
// send; an error is one sentence, with its number in the log.
import { element } from "attlas/dom.js";
import { Model } from "attlas/model.js";

export class Problem extends Error {
  constructor({ error, id }) {
    super(error);
    this.number = id;
  }
}

export async function ask(path, body) {
  const headers = { accept: "application/json" };
  const options = { headers, credentials: "same-origin" };
  if (body !== undefined) {
    options.method = "POST";
    options.body = JSON.stringify(body);
    Object.assign(headers, { "content-type": "application/json", "x-attlas": "1" });
  }
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new Problem({ error: "The server does not answer; is it still running?" });
  }
  if (answer.ok) return answer;
  const known = await answer.json().catch(() => ({}));
  throw new Problem({ error: known.error ?? `The server answered ${answer.status}.`, ...known });
}

export async function json(path, body) {
  return (await ask(path, body)).json();
}

// A problem as a reader sees it.
export function sentence(problem) {
  const number = problem.number ? ` error ${problem.number} in the log` : "";
  const soft = element("span", { class: "grey" }, number);
  return element("p", { class: "problem", role: "alert" }, problem.message, soft);
}

// The model of a view whose text the server has read: what the view sends is fetched, and comes
// back as a message, as in a notebook.
export class RemoteModel extends Model {
  constructor(data, state, look) {
    super(data, state);
    this.look = look;
    this.listeners = new Set();
  }
  on(event, listener) {
    if (event === "msg:custom") this.listeners.add(listener);
    else super.on(event, listener);
  }
  off(event, listener) {
    if (event === "msg:custom") this.listeners.delete(listener);
    else super.off(event, listener);
  }
  async send(content) {
    const { kind, head, query, row, view, word } = content;
    const base = `/api/looks/${this.look}`;
    const paths = {
      row: `rows/${head}/${query}`,
      codes: `codes/${head}`,
      tops: `tops/${row}`,
      word: `words/${view}/${word}`,
    };
    const answer = await ask(`${base}/${paths[kind]}`);
    const message = { ...content };
    const buffers = [];
    const isBinary = answer.headers.get("content-type") === "application/octet-stream";
    if (isBinary) buffers.push(new DataView(await answer.arrayBuffer()));
    else message.data = await answer.json();
    for (const listener of [...this.listeners]) listener(message, buffers);
  }
}
