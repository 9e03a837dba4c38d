// What a view gets from its page, as it would from a notebook: `get`, `set`, `on`, `off` and
// `save_changes` of an anywidget model. `data` is a view's own; everything else, such as the
// chosen head, is shared by all views of a page.
export class State {
  constructor(values = {}) {
    this.values = { ...values };
    this.listeners = new Map();
  }
  get(name) {
    return this.values[name];
  }
  set(name, value) {
    if (JSON.stringify(this.values[name]) === JSON.stringify(value)) return;
    this.values[name] = value;
    for (const listener of [...(this.listeners.get("change:" + name) ?? [])]) listener();
  }
  on(event, listener) {
    if (!this.listeners.has(event)) this.listeners.set(event, new Set());
    this.listeners.get(event).add(listener);
  }
  off(event, listener) {
    this.listeners.get(event)?.delete(listener);
  }
}

// `state` is that of a page, or the model of a notebook, which also takes messages.
export class Model {
  constructor(data, state) {
    this.data = data;
    this.state = state;
    if (state.send) this.send = (...message) => state.send(...message);
  }
  get(name) {
    return name === "data" ? this.data : this.state.get(name);
  }
  set(name, value) {
    this.state.set(name, value);
  }
  on(event, listener) {
    this.state.on(event, listener);
  }
  off(event, listener) {
    this.state.off(event, listener);
  }
  save_changes() {
    this.state.save_changes?.();
  }
}

// Calls a listener for changes of a shared value until the view is removed.
export function onChange(model, name, listener, signal) {
  model.on("change:" + name, listener);
  signal?.addEventListener("abort", () => model.off("change:" + name, listener));
}
