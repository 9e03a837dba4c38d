// The change of one head in one number, as head_changes.py packs it, and in words.
import { decimal, known } from "attlas/numbers.js";

const NAMES = ["a", "b", "uniform", "difference", "low", "high", "control", "halves", "seed"];

export function changeAt(column, head) {
  return Object.fromEntries(NAMES.map((name) => [name, column?.[name]?.[head] ?? null]));
}

export function signed(value, small = false) {
  return (value > 0 && Number(value.toFixed(2)) > 0 ? "+" : "") + decimal(value, small);
}

export function changeWords(change) {
  if (!known(change.difference)) return "has no such number in both.";
  const interval = known(change.low)
    ? ` [${decimal(change.low)}, ${decimal(change.high)}]`
    : "";
  const shifted = known(change.control) && Math.abs(change.control) >= 0.005;
  return [
    `A ${decimal(change.a)}, B ${decimal(change.b)}, uniform attention ${decimal(change.uniform)}`,
    `B − A ${signed(change.difference)}${shifted ? "" : interval}`,
    ...(shifted ? [`uniform attention ${signed(change.control)}, the rest${interval}`] : []),
    ...(known(change.halves) ? [`two halves of A ±${decimal(change.halves)}`] : []),
    ...(known(change.seed) ? [`another seed ${signed(change.seed)}`] : []),
  ].join(" · ");
}
