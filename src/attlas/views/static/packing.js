// Arrays of a page as packing.py packs them: compressed bytes, bytes of one kind together.
const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
// The number that a letter stands for.
export const code = new Uint8Array(128);
[...letters].forEach((letter, index) => {
  code[letter.charCodeAt(0)] = index;
});

const TYPES = { u1: Uint8Array, u2: Uint16Array, i4: Int32Array, f4: Float32Array };

function bytesOf(letters) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(letters);
  const text = atob(letters);
  const out = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at++) out[at] = text.charCodeAt(at);
  return out;
}

// What was compressed, as bytes.
export async function inflated(letters) {
  const stream = new Blob([bytesOf(letters)])
    .stream()
    .pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

export async function inflatedJson(letters) {
  return JSON.parse(new TextDecoder().decode(await inflated(letters)));
}

export async function unpacked({ type, bytes }) {
  const planes = await inflated(bytes);
  const size = TYPES[type].BYTES_PER_ELEMENT;
  if (size === 1) return planes;
  const count = planes.length / size;
  const out = new Uint8Array(planes.length);
  for (let plane = 0; plane < size; plane++) {
    for (let at = 0; at < count; at++) out[at * size + plane] = planes[plane * count + at];
  }
  return new TYPES[type](out.buffer);
}

// Numbers of rows packed as the root of their share of the row's largest.
export async function unpackedRoots({ codes, scales }) {
  const all = await unpacked(codes);
  const count = scales.length ? all.length / scales.length : 0;
  return {
    rows: scales.length,
    count,
    at: (row, column) => (all[row * count + column] / 65535) ** 2 * scales[row],
    // Adds a row, times a factor, to an array.
    add(row, factor, out) {
      const scale = (scales[row] * factor) / 65535 ** 2;
      const from = row * count;
      for (let at = 0; at < count; at++) out[at] += all[from + at] ** 2 * scale;
    },
  };
}
