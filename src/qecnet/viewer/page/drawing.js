// Building blocks of both pictures: dots, lines, balls, axes, arrows, labels.

import {
  BufferAttribute, BufferGeometry, CanvasTexture, Color, ConeGeometry, CylinderGeometry, Group, InstancedMesh,
  LineBasicMaterial, LineSegments, Matrix4, Mesh, MeshBasicMaterial, MeshLambertMaterial, Points, Quaternion, ShaderMaterial,
  SphereGeometry, Sprite, SpriteMaterial, Vector3,
} from "./three.min.js";

export const styled = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const RAMP = ["#30327f", "#2b6ca3", "#22a08c", "#7cc653", "#f2d13b"].map((c) => new Color(c));

// From 0 to 1: dark blue to yellow.
export function ramp(share) {
  const at = Math.min(Math.max(share, 0), 1) * (RAMP.length - 1);
  const low = Math.min(Math.floor(at), RAMP.length - 2);
  return RAMP[low].clone().lerp(RAMP[low + 1], at - low);
}
export const RAMP_CSS = `linear-gradient(90deg, ${RAMP.map((c) => `#${c.getHexString()}`).join(", ")})`;

// The orientation error of a vote: green, then yellow, then red.
const NEAR = new Color("#17936b");
const HALF = new Color("#e5b324");
const FAR = new Color("#cf3b2a");
export function agreement(radians) {
  const share = Math.min(radians / (Math.PI / 2), 1);
  return share < 0.5 ? NEAR.clone().lerp(HALF, 2 * share) : HALF.clone().lerp(FAR, 2 * share - 1);
}

export function geometry(positions, index = null) {
  const made = new BufferGeometry();
  made.setAttribute("position", new BufferAttribute(positions, 3));
  if (index) made.setIndex(new BufferAttribute(index, 1));
  return made;
}

export function colours(count, colour) {
  const array = new Float32Array(3 * count);
  for (let i = 0; i < count; i++) colour(i).toArray(array, 3 * i);
  return new BufferAttribute(array, 3);
}

// Round dots of any size and colour; sizes are diameters in the world.
export function dots(positions, colour, size) {
  const count = positions.length / 3;
  const made = geometry(positions);
  made.setAttribute("color", colours(count, colour));
  made.setAttribute("size", new BufferAttribute(Float32Array.from({ length: count }, (_, i) => size(i)), 1));
  const material = new ShaderMaterial({
    vertexColors: true,
    uniforms: { pixels: { value: 1000 }, fade: { value: 0 }, ground: { value: new Color() } },
    vertexShader: `attribute float size; uniform float pixels; uniform float fade; varying vec3 tint;
      void main() {
        vec4 seen = modelViewMatrix * vec4(position, 1.0);
        gl_Position = projectionMatrix * seen;
        gl_PointSize = max(1.0, (1.0 - 0.5 * fade) * size * pixels * projectionMatrix[1][1] / gl_Position.w);
        tint = color;
      }`,
    fragmentShader: `varying vec3 tint; uniform float fade; uniform vec3 ground;
      void main() {
        vec2 at = 2.0 * gl_PointCoord - 1.0;
        float far = dot(at, at);
        if (far > 1.0) discard;
        gl_FragColor = vec4(mix(tint * (1.0 - 0.28 * far), ground, fade), 1.0);
        #include <colorspace_fragment>
      }`,
  });
  const points = new Points(made, material);
  // The size in pixels depends on the height of the canvas.
  points.onBeforeRender = (renderer) => {
    material.uniforms.pixels.value = renderer.domElement.height / 2;
  };
  return points;
}

export function lines(positions, colour, opacity = 1) {
  const made = geometry(positions);
  made.setAttribute("color", colours(positions.length / 3, colour));
  return new LineSegments(made, new LineBasicMaterial({ vertexColors: true, transparent: opacity < 1, opacity }));
}

export function balls(positions, colour, radius) {
  const count = positions.length / 3;
  const made = new InstancedMesh(new SphereGeometry(1, 14, 10), new MeshLambertMaterial(), count);
  const matrix = new Matrix4();
  for (let i = 0; i < count; i++) {
    const r = radius(i);
    made.setMatrixAt(i, matrix.makeScale(r, r, r).setPosition(...positions.subarray(3 * i, 3 * i + 3)));
    made.setColorAt(i, colour(i));
  }
  return made;
}

// The three axes of rotations (WXYZ, one after the other) at positions, as thin rods.
export function crosses(positions, poses, length, thickness) {
  const count = positions.length / 3;
  const rod = new CylinderGeometry(1, 1, 1, 6).translate(0, 0.5, 0);
  const made = new InstancedMesh(rod, new MeshBasicMaterial(), 3 * count);
  const hues = ["--x", "--y", "--up"].map((name) => new Color(styled(name)));
  const onto = [[1, 0, 0], [0, 1, 0], [0, 0, 1]].map((axis) =>
    new Quaternion().setFromUnitVectors(new Vector3(0, 1, 0), new Vector3(...axis)));
  const [pose, matrix, place] = [new Quaternion(), new Matrix4(), new Vector3()];
  const size = new Vector3(thickness, length, thickness);
  for (let i = 0; i < count; i++) {
    place.fromArray(positions, 3 * i);
    for (let k = 0; k < 3; k++) {
      pose.set(poses[4 * i + 1], poses[4 * i + 2], poses[4 * i + 3], poses[4 * i]).multiply(onto[k]);
      made.setMatrixAt(3 * i + k, matrix.compose(place, pose, size));
      made.setColorAt(3 * i + k, hues[k]);
    }
  }
  return made;
}

export function arrow(direction, colour, length, thickness) {
  const material = new MeshBasicMaterial({ color: new Color(colour) });
  const head = 7 * thickness;
  const shaft = new Mesh(new CylinderGeometry(thickness, thickness, length - head, 14), material);
  shaft.position.y = (length - head) / 2;
  const tip = new Mesh(new ConeGeometry(2.6 * thickness, head, 20), material);
  tip.position.y = length - head / 2;
  const made = new Group().add(shaft, tip);
  made.quaternion.setFromUnitVectors(new Vector3(0, 1, 0), direction);
  return made;
}

// A camera at the origin that looks along z.
export function frustum(colour) {
  const corners = [[-1, -1], [1, -1], [1, 1], [-1, 1]].map(([x, y]) => [0.16 * x, 0.12 * y, 0.36]);
  const ends = corners.flatMap((corner, i) => [[0, 0, 0], corner, corner, corners[(i + 1) % 4]]);
  return lines(new Float32Array(ends.flat()), () => colour);
}

export function label(text, colour, height) {
  const canvas = document.createElement("canvas");
  const size = 64;
  const font = `700 ${size}px system-ui, "Liberation Sans", Arial, sans-serif`;
  let pen = canvas.getContext("2d");
  pen.font = font;
  canvas.width = Math.ceil(pen.measureText(text).width) + 24;
  canvas.height = 1.4 * size;
  pen = canvas.getContext("2d");
  pen.font = font;
  pen.textBaseline = "middle";
  pen.lineJoin = "round";
  pen.lineWidth = 12;
  pen.strokeStyle = styled("--ground");
  pen.strokeText(text, 12, canvas.height / 2);
  pen.fillStyle = colour;
  pen.fillText(text, 12, canvas.height / 2);
  const texture = new CanvasTexture(canvas);
  texture.colorSpace = "srgb";
  const made = new Sprite(new SpriteMaterial({ map: texture, depthTest: false }));
  made.scale.set((height * canvas.width) / canvas.height, height, 1);
  return made;
}

// Removes everything from a group and frees it on the graphics card.
export function empty(group) {
  group.traverse((thing) => {
    if (thing === group) return;
    thing.geometry?.dispose();
    thing.material?.map?.dispose();
    thing.material?.dispose();
    if (thing.isInstancedMesh) thing.dispose();
  });
  group.clear();
  return group;
}
