// Rotations: the network uses WXYZ, three.js uses XYZW.

import { Quaternion, Vector3 } from "./three.min.js";

export const toThree = ([w, x, y, z]) => new Quaternion(x, y, z, w);
export const fromThree = (q) => [q.w, q.x, q.y, q.z];
export const degrees = (radians) => (radians * 180) / Math.PI;

// `Quaternion.angleTo` loses small angles to its arccosine.
export function angleBetween(a, b) {
  const between = a.clone().conjugate().multiply(b);
  return 2 * Math.atan2(Math.hypot(between.x, between.y, between.z), Math.abs(between.w));
}

export function describe(q) {
  const sign = q.w < 0 ? -1 : 1;
  const axis = new Vector3(sign * q.x, sign * q.y, sign * q.z);
  const angle = degrees(2 * Math.atan2(axis.length(), Math.abs(q.w)));
  if (angle < 0.05) return "0°";
  const [x, y, z] = axis.normalize().toArray().map((part) => part.toFixed(2).replace("-0.00", "0.00"));
  return `${angle.toFixed(0)}° about (${x}, ${y}, ${z})`;
}

// The angle between two poses, up to the rotations about their own z under which the class looks the same.
export function orientationError(pose, expected, symmetry) {
  if (symmetry === "any") {
    const up = new Vector3(0, 0, 1);
    return up.clone().applyQuaternion(pose).angleTo(up.applyQuaternion(expected));
  }
  let least = Math.PI;
  for (let k = 0; k < symmetry; k++) {
    const turn = new Quaternion().setFromAxisAngle(new Vector3(0, 0, 1), (2 * Math.PI * k) / symmetry);
    least = Math.min(least, angleBetween(pose.clone().multiply(turn), expected));
  }
  return least;
}
