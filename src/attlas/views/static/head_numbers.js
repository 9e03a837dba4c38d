// Numbers and heads as numbers.py and cards.py write them for people.
function fixed(value) {
  if (Math.abs(value) < 0.005) return "0.00";
  const eighths = value * 8;
  if (!Number.isInteger(eighths) || Number.isInteger(eighths / 2)) return value.toFixed(2);
  const below = Math.floor(value * 100); // halfway between two: to the even one, as Python does
  return ((below % 2 ? below + 1 : below) / 100).toFixed(2);
}

// A number as in a cell of a table: no zero before the point.
export function number(value) {
  if (!Number.isFinite(value)) return "-";
  return fixed(value).replace(/^(-?)0\./, "$1.");
}

function twoDigits(value) {
  if (value === 0) return "0";
  const [digits, power] = value.toExponential(1).split("e");
  const small = Number(power) < -4;
  const short = digits.replace(/\.0$/, "");
  if (!small) return String(Number(value.toPrecision(2)));
  return `${short}e-${String(-Number(power)).padStart(2, "0")}`;
}

// Two places, or two digits where those show nothing; `largest` is that of value and control.
export function written(value, largest) {
  return Math.abs(largest) < 0.01 ? twoDigits(value) : number(value);
}

// The parts of a row as they are written: value, interval, control.
export function rowWords(row) {
  const largest = Math.max(Math.abs(row.value), Math.abs(row.control ?? 0));
  const known = (value) => value !== null && value !== undefined;
  return {
    value: written(row.value, largest),
    interval:
      known(row.low) && known(row.high)
        ? `[${written(row.low, largest)},\u00a0${written(row.high, largest)}]`
        : "",
    control: known(row.control) ? written(row.control, largest) : "",
    n: known(row.n) ? row.n.toLocaleString("en") : "",
  };
}

export function headName(place, heads) {
  return `L${Math.floor(place / heads)}H${place % heads}`;
}

// The number of a head by its name; -1 for what is not a head of this model.
export function headPlace(name, [layers, heads]) {
  const [, layer, head] = /^L(\d+)H(\d+)$/.exec(name ?? "") ?? [];
  const known = layer !== undefined && Number(layer) < layers && Number(head) < heads;
  return known ? Number(layer) * heads + Number(head) : -1;
}

export function ordinal(rank) {
  const teen = rank % 100 > 10 && rank % 100 < 14;
  return rank + ((!teen && ["th", "st", "nd", "rd"][rank % 10]) || "th");
}
