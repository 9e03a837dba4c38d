// Tokens at which the positions of a lengthened model start again, in words.
const NAMED = 3;

export function seamWords(seams) {
  if (!seams.length) return "";
  const some = seams.slice(0, NAMED).map((token) => token.toLocaleString("en"));
  const more = seams.length > NAMED ? ", …" : "";
  return `grey lines: positions repeat from tokens ${some.join(", ")}${more}`;
}
