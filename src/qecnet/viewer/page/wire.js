// Responses as `qecnet.viewer.wire` packs them: a header in JSON, followed by arrays as they are in memory.

const TYPES = { f4: Float32Array, u4: Uint32Array };

export function unpack(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const arrays = {};
  for (const [name, { type, shape, offset }] of Object.entries(header.arrays)) {
    const count = shape.reduce((a, b) => a * b, 1);
    arrays[name] = new TYPES[type](buffer, 4 + length + offset, count);
  }
  delete header.arrays;
  return { header, arrays };
}
