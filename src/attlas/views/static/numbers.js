// Numbers as people read them: .95 in a cell, 0.95 in a sentence, a true minus, – where none is.
const MINUS = "\u2212";
const RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹";

export function known(value) {
  return value !== null && value !== undefined && Number.isFinite(value);
}

// A number of a sentence: two places, three digits if the numbers around it are small.
export function decimal(value, small = false) {
  if (!known(value)) return "–";
  const size = Math.abs(value);
  const places = size >= 999.5 ? 0 : size >= 99.5 ? 1 : 2;
  const written = small && size ? digits(size) : size.toFixed(places);
  return (value < 0 && Number(written) ? MINUS : "") + written;
}

function digits(size) {
  if (size >= 0.001) return String(Number(size.toPrecision(3)));
  const power = Math.floor(Math.log10(size));
  return `${(size / 10 ** power).toFixed(2)} × 10${raised(power)}`;
}

function raised(power) {
  const letters = [...String(Math.abs(power))].map((one) => RAISED[Number(one)]);
  return (power < 0 ? "⁻" : "") + letters.join("");
}

// How the numbers of a grid are written in its cells: with more places, or divided by a power of
// ten, so that small ones keep their digits; and what to say about it.
export function cellScale(values) {
  const top = Math.max(0, ...values.filter(known).map(Math.abs));
  const power = top > 0 && top < 0.0095 ? Math.floor(Math.log10(top)) : 0;
  const places = top < 0.095 ? 3 : 2;
  return { power, places, says: power ? `in units of 10${raised(power)}` : "" };
}

// A number that fits into a cell: .95, 3.1, 42; nothing where it would not.
export function cellText(value, { power, places }) {
  if (!known(value)) return "";
  const size = Math.abs(value) / 10 ** power;
  if (size >= 9999.5) return "";
  const written = size.toFixed(power ? 1 : size < 0.995 ? places : size < 9.95 ? 1 : 0);
  const sign = value < 0 && Number(written) ? MINUS : "";
  return sign + (power ? written : written.replace(/^0\./, "."));
}

// A number of an axis: 0, 0.2, 10, with no digits that say nothing.
export function axis(value) {
  if (value && Math.abs(value) < 0.001) return decimal(value, true);
  const written = Math.abs(value).toLocaleString("en", { maximumSignificantDigits: 4 });
  return (value < 0 ? MINUS : "") + written;
}

// Round numbers from one value to another, about as many as wanted.
export function ticks(low, high, wanted = 4) {
  const size = high - low;
  if (!(size > 0)) return [low];
  const rough = size / wanted;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = unit * [1, 2, 5, 10].find((one) => one * unit >= rough * 0.999);
  const out = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-6; at++) {
    out.push(Number((at * step).toPrecision(12)));
  }
  return out;
}
