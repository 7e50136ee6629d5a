// The small picture: two axes of each vote on the sphere of directions.

import {
  Color, Group, HemisphereLight, LineBasicMaterial, LineSegments, Mesh, MeshLambertMaterial, PerspectiveCamera, Scene,
  SphereGeometry, Vector3, WebGLRenderer,
} from "./three.min.js";
import { dots, empty, geometry, styled } from "./drawing.js";
import { voteOf } from "./layers.js";

const AXES = [[new Vector3(0, 0, 1), "--up"], [new Vector3(1, 0, 0), "--x"]];

export class Sphere {
  constructor(canvas) {
    this.canvas = canvas;
    this.renderer = new WebGLRenderer({ canvas, antialias: true, alpha: true, preserveDrawingBuffer: true });
    this.scene = new Scene();
    this.camera = new PerspectiveCamera(30, 1, 0.1, 20);
    this.camera.up.set(0, 0, 1);
    this.scene.add(new HemisphereLight(0xffffff, 0xbfc6cf, 2.6));
    const ball = new MeshLambertMaterial({ color: styled("--mesh"), transparent: true, opacity: 0.42, depthWrite: false });
    this.scene.add(new Mesh(new SphereGeometry(0.985, 48, 32), ball));
    this.scene.add(new LineSegments(geometry(meridians()), new LineBasicMaterial({ color: styled("--grid") })));
    this.marks = new Group();
    this.scene.add(this.marks);
  }

  // A voting round after a routing iteration; `hovered` is the voter under the mouse.
  show(round, hovered = null) {
    empty(this.marks);
    for (const [axis, colour] of AXES) {
      const positions = new Float32Array(3 * round.count);
      for (let i = 0; i < round.count; i++) {
        axis.clone().applyQuaternion(voteOf(round, i)).multiplyScalar(1.01).toArray(positions, 3 * i);
      }
      const size = (i) => (i === hovered ? 0.16 : 0.034 + 0.11 * Math.sqrt(round.weights[i] / round.largest));
      const ink = new Color(styled("--ink"));
      const hue = new Color(styled(colour));
      this.marks.add(dots(positions, (i) => (i === hovered ? ink : hue), size));
      this.marks.add(ring(axis.clone().applyQuaternion(round.pose), styled(colour)));
    }
    this.draw();
  }

  // Takes the direction of the large picture's camera.
  look(camera) {
    this.camera.position.copy(camera.position).setLength(4.3);
    this.camera.lookAt(0, 0, 0);
    this.draw();
  }

  draw() {
    if (this.asked || this.canvas.closest("[hidden]")) return;
    this.asked = requestAnimationFrame(() => {
      this.asked = null;
      const { clientWidth: width, clientHeight: height } = this.canvas;
      if (!width || !height) return;
      this.renderer.setPixelRatio(Math.min(devicePixelRatio, 2));
      this.renderer.setSize(width, height, false);
      this.camera.aspect = width / height;
      this.camera.updateProjectionMatrix();
      this.renderer.render(this.scene, this.camera);
    });
  }
}

function circle(place, count = 64) {
  const ends = [];
  for (let i = 0; i < count; i++) for (const k of [i, i + 1]) ends.push(...place((2 * Math.PI * k) / count));
  return ends;
}

function meridians() {
  const ends = [];
  for (const z of [-0.5, 0, 0.5]) {
    const r = Math.sqrt(1 - z * z);
    ends.push(...circle((t) => [r * Math.cos(t), r * Math.sin(t), z]));
  }
  for (let k = 0; k < 3; k++) {
    const [c, s] = [Math.cos((Math.PI * k) / 3), Math.sin((Math.PI * k) / 3)];
    ends.push(...circle((t) => [c * Math.cos(t), s * Math.cos(t), Math.sin(t)]));
  }
  return new Float32Array(ends);
}

// A circle on the sphere around a direction, as lines of some thickness.
function ring(direction, colour) {
  const side = new Vector3(1, 0, 0);
  if (Math.abs(direction.x) > 0.8) side.set(0, 1, 0);
  const a = side.cross(direction).normalize();
  const b = direction.clone().cross(a);
  const made = new Group();
  for (const r of [0.115, 0.125, 0.135]) {
    const at = (t) => direction.clone().multiplyScalar(Math.sqrt(1 - r * r) * 1.015)
      .addScaledVector(a, r * Math.cos(t)).addScaledVector(b, r * Math.sin(t)).toArray();
    made.add(new LineSegments(geometry(new Float32Array(circle(at, 40))), new LineBasicMaterial({ color: colour })));
  }
  return made;
}
