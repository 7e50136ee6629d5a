// The large picture: a shape on a grid, the rings that rotate it, the predicted axes, and the second shape.

import {
  Color, DirectionalLight, GridHelper, Group, HemisphereLight, Mesh, MeshLambertMaterial, OrbitControls, PerspectiveCamera,
  Quaternion, Raycaster, Scene, TransformControls, Vector2, Vector3, WebGLRenderer,
} from "./three.min.js";
import { arrow, dots, empty, frustum, geometry, label, ramp, styled } from "./drawing.js";
import { toThree } from "./rotation.js";

const APART = 1.25; // half of the distance between two shapes
const RINGS = 1.06; // their radius; the shape's is 1
const SLOW = 60; // milliseconds per frame; slower ones are drawn coarsely while something moves
const STILL = 250;

export class Stage {
  // Callbacks: `on.rotated()` by hand, `on.looked()` when the camera moved, `on.hovered(hit)` for the mouse.
  constructor(canvas, on) {
    this.canvas = canvas;
    this.renderer = new WebGLRenderer({ canvas, antialias: true, preserveDrawingBuffer: true });
    this.scene = new Scene();
    this.camera = new PerspectiveCamera(34, 1, 0.05, 60);
    this.camera.up.set(0, 0, 1);
    this.camera.position.set(2.75, -4.3, 1.95);
    this.scene.add(new HemisphereLight(0xffffff, 0x9098a4, 2.1));
    const sun = new DirectionalLight(0xffffff, 1.7);
    sun.position.set(2, -3, 5);
    this.scene.add(sun);
    this.grid = new Group();
    this.shape = new Group();
    this.second = new Group();
    this.moved = new Group();
    this.eye = new Group();
    this.axes = new Group();
    this.layers = new Group();
    this.second.visible = false;
    this.shifted = 0;
    this.points = {};
    this.meshes = {};
    this.scene.add(this.grid, this.shape, this.second, this.moved, this.eye, this.axes, this.layers);
    this.moved.visible = false;
    this.orbit = new OrbitControls(this.camera, canvas);
    this.orbit.target.set(0, 0, 0.07);
    this.orbit.minDistance = 1.5;
    this.orbit.maxDistance = 14;
    this.orbit.addEventListener("change", () => {
      on.looked();
      this.size();
      this.draw();
    });
    this.rings = new TransformControls(this.camera, canvas);
    this.rings.setMode("rotate");
    this.rings.showE = false;
    thinner(this.rings.getHelper());
    this.rings.attach(this.shape);
    this.rings.addEventListener("change", () => this.draw());
    this.rings.addEventListener("objectChange", () => on.rotated());
    this.rings.addEventListener("dragging-changed", (event) => {
      this.orbit.enabled = !event.value;
      on.rotated();
    });
    this.scene.add(this.rings.getHelper());
    this.mouse = new Raycaster();
    canvas.addEventListener("pointermove", (event) => on.hovered(this.under(event), event));
    canvas.addEventListener("pointerleave", (event) => on.hovered(null, event));
    new ResizeObserver(() => this.resize()).observe(canvas.parentElement);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.paint());
    this.paint();
    this.resize();
  }

  get rotating() {
    return this.rings.dragging;
  }

  paint() {
    this.scene.background = new Color(styled("--ground"));
    const lines = new Color(styled("--grid"));
    const grid = new GridHelper(8, 32, lines, lines);
    grid.rotation.x = Math.PI / 2;
    grid.position.z = -1.02;
    empty(this.grid).add(grid);
    this.rings.setColors(...["--x", "--y", "--up", "--ink"].map(styled));
    empty(this.axes);
    for (const [name, direction, colour] of [["x", [1, 0, 0], "--x"], ["y", [0, 1, 0], "--y"], ["up", [0, 0, 1], "--up"]]) {
      const along = new Vector3(...direction);
      const text = label(name, styled(colour), 0.16);
      text.position.copy(along.clone().multiplyScalar(1.42));
      this.axes.add(arrow(along, styled(colour), 1.32, 0.012), text);
    }
    for (const mesh of Object.values(this.meshes)) mesh?.material.color.set(styled("--mesh"));
    this.draw();
  }

  resize() {
    const { clientWidth: width, clientHeight: height } = this.canvas.parentElement;
    if (!width || !height) return;
    this.coarse = null; // the ratio may have changed with the screen
    this.coarsely(false);
    this.renderer.setSize(width, height, false);
    this.camera.aspect = width / height;
    // A narrow window shows as much of the width as a wide one shows of the height; two shapes need more.
    this.camera.zoom = this.second.visible ? Math.min(0.82, (0.66 * width) / height) : Math.min(1, width / height);
    this.camera.setViewOffset(width, height, this.shifted, 0, width, height);
    this.size();
    this.draw();
  }

  // Moves the centre of the picture to the left by so many pixels.
  shift(pixels) {
    if (pixels === this.shifted) return;
    this.shifted = pixels;
    this.resize();
  }

  // Keeps the rings as large as the shape; by default they keep their size on the screen.
  size() {
    const far = this.camera.position.distanceTo(this.shape.position);
    const unit = far * ((1.9 * Math.tan((this.camera.fov * Math.PI) / 360)) / this.camera.zoom);
    this.rings.setSize((8 * RINGS) / unit);
  }

  draw() {
    this.asked ??= requestAnimationFrame((now) => {
      this.asked = null;
      const since = now - (this.drawn ?? 0);
      this.drawn = now;
      // Consecutive frames tell how long one takes.
      if (since < STILL) this.pace = 0.8 * (this.pace ?? SLOW / 2) + 0.2 * since;
      this.coarsely(since < STILL && this.pace > SLOW);
      this.renderer.render(this.scene, this.camera);
    });
  }

  // Without a graphics card, drawing would take the time that the network needs.
  coarsely(coarse) {
    clearTimeout(this.resting);
    if (coarse) {
      this.resting = setTimeout(() => {
        this.coarsely(false);
        this.renderer.render(this.scene, this.camera);
      }, STILL);
    }
    if (coarse === this.coarse) return;
    this.coarse = coarse;
    this.canvas.dataset.coarse = coarse;
    this.renderer.setPixelRatio((coarse ? 0.5 : 1) * Math.min(devicePixelRatio, 2));
  }

  // `which` is "shape" or "second".
  put(which, points, vertices, faces) {
    const group = empty(this[which]);
    const heights = points.filter((_, i) => i % 3 === 2);
    const [low, high] = heights.reduce(([a, b], z) => [Math.min(a, z), Math.max(b, z)], [Infinity, -Infinity]);
    const colour = (i) => this.tint(which, (points[3 * i + 2] - low) / Math.max(high - low, 1e-6));
    const size = Math.min(0.05, Math.max(0.015, 1.5 / Math.sqrt(points.length / 3)));
    this.points[which] = dots(points, colour, () => size);
    if (which === "shape") [this.low, this.high, this.points.seen] = [low, high, null];
    group.add(this.points[which]);
    this.meshes[which] = null;
    if (vertices) {
      const material = new MeshLambertMaterial({ color: styled("--mesh"), side: 2, flatShading: true });
      // Points lie on the surface and must not be hidden by it.
      Object.assign(material, { polygonOffset: true, polygonOffsetFactor: 2, polygonOffsetUnits: 6 });
      this.meshes[which] = new Mesh(geometry(vertices, faces), material);
      group.add(this.meshes[which]);
    }
    if (which === "shape") {
      empty(this.moved).add(dots(points, () => this.tint("moved", 0), () => size));
    }
    this.draw();
  }

  // What a camera sees of the shape, in the shape's own coordinates, and where the camera is; or nothing.
  see(points, place) {
    if (this.points.seen) {
      this.shape.remove(this.points.seen);
      this.points.seen.geometry.dispose();
      this.points.seen.material.dispose();
    }
    this.points.seen = null;
    empty(this.eye);
    if (!points) return;
    const height = (i) => (points[3 * i + 2] - this.low) / Math.max(this.high - this.low, 1e-6);
    this.points.seen = dots(points, (i) => this.tint("shape", Math.min(Math.max(height(i), 0), 1)), () => 0.02);
    this.shape.add(this.points.seen);
    this.eye.add(frustum(new Color(styled("--ink"))));
    this.eye.position.fromArray(place).add(this.shape.position);
    this.eye.up.set(0, 0, 1);
    this.eye.lookAt(this.shape.position);
  }

  tint(which, height) {
    if (which === "shape") return ramp(0.08 + 0.86 * height);
    return which === "second" ? new Color("#7d8794").lerp(new Color("#b9c1cb"), height) : new Color("#e0642c");
  }

  // Chooses what is visible, and whether there are two shapes.
  show({ points, mesh, axes, second, after }) {
    for (const which of ["shape", "second"]) {
      if (this.points[which]) this.points[which].visible = points || !(mesh && this.meshes[which]);
      if (this.meshes[which]) this.meshes[which].visible = mesh;
    }
    if (this.points.seen) this.points.shape.visible = false;
    this.axes.visible = axes;
    if (second !== this.second.visible) {
      this.second.visible = second;
      // Side by side as seen by the camera now.
      const right = new Vector3().setFromMatrixColumn(this.camera.matrixWorld, 0).setLength(APART);
      this.second.position.copy(right);
      this.shape.position.copy(second ? right.negate() : new Vector3());
      this.resize();
    }
    this.moved.visible = second && after;
    this.draw();
  }

  // The axes show the pose that was predicted; layers follow the shape, which may have been rotated since.
  place(answer, answered, rotation, secondRotation, alignment) {
    const here = this.shape.position;
    this.axes.quaternion.copy(toThree(answer.pose));
    this.axes.position.copy(here);
    this.layers.quaternion.copy(rotation.clone().multiply(answered.clone().conjugate()));
    this.layers.position.copy(here);
    if (secondRotation) this.second.quaternion.copy(secondRotation);
    if (alignment) {
      this.moved.quaternion.copy(toThree(alignment.rotation).multiply(answered));
      this.moved.position.copy(this.second.position).add(new Vector3(...alignment.translation));
    }
    this.draw();
  }

  // Fades shapes behind layers; a corrupted shape shows its points rather than its mesh.
  fade(faded, corrupted) {
    for (const which of ["shape", "second", "seen"]) {
      const [points, mesh] = [this.points[which], this.meshes[which]];
      if (points) {
        points.material.uniforms.fade.value = faded ? 0.72 : 0;
        points.material.uniforms.ground.value.set(styled("--ground"));
        points.material.depthWrite = !faded;
        points.renderOrder = faded ? -1 : 0;
      }
      const glassy = faded || (corrupted && which === "shape");
      if (mesh) Object.assign(mesh.material, { transparent: glassy, opacity: glassy ? 0.16 : 1, depthWrite: !glassy });
    }
  }

  // The ball under the mouse, of those with `userData.describe`.
  under(event) {
    const described = this.layers.children.filter((thing) => thing.userData.describe);
    if (!described.length || event.buttons) return null;
    const box = this.canvas.getBoundingClientRect();
    const at = new Vector2((2 * (event.clientX - box.left)) / box.width - 1, 1 - (2 * (event.clientY - box.top)) / box.height);
    this.mouse.setFromCamera(at, this.camera);
    const [hit] = this.mouse.intersectObjects(described, false);
    return hit ? { ...hit.object.userData.describe(hit.instanceId), layer: hit.object } : null;
  }

  picture() {
    const helper = this.rings.getHelper();
    helper.visible = false;
    this.renderer.render(this.scene, this.camera);
    return new Promise((done) => {
      this.canvas.toBlob((blob) => {
        helper.visible = true;
        this.draw();
        done(blob);
      }, "image/png");
    });
  }
}

// Rings of the usual thickness would hide a shape of the same size.
function thinner(helper) {
  helper.traverse(({ geometry: ring, material }) => {
    if (ring?.type !== "TorusGeometry" || ring.parameters.tube > 0.01) return;
    const { radialSegments: around, tubularSegments: along } = ring.parameters;
    const places = ring.getAttribute("position");
    const [middle, place] = [new Vector3(), new Vector3()];
    for (let i = 0; i <= along; i++) {
      const corners = Array.from({ length: around + 1 }, (_, j) => j * (along + 1) + i);
      middle.set(0, 0, 0);
      for (const j of corners.slice(1)) middle.addScaledVector(place.fromBufferAttribute(places, j), 1 / around);
      for (const j of corners) places.setXYZ(j, ...place.fromBufferAttribute(places, j).lerp(middle, 0.6).toArray());
    }
    material.opacity = 0.75;
  });
}

export const randomRotation = () => new Quaternion().random();
