// Replies as `qecnet.viewer.wire` packs them: a header in JSON, and arrays behind it as they are in memory.

const KINDS = { f4: Float32Array, u4: Uint32Array };

export function unpacked(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const arrays = {};
  for (const [name, place] of Object.entries(header.arrays)) {
    const count = place.shape.reduce((a, b) => a * b, 1);
    arrays[name] = new KINDS[place.type](buffer, 4 + length + place.at, count);
  }
  delete header.arrays;
  return { header, arrays };
}
