// The strip of likely orientations: a small picture of the shape in each of them, upright, with its probability.

import { Quaternion, Vector3 } from "./three.min.js";
import { ramp } from "./drawing.js";
import { angleBetween, degrees, toThree } from "./rotation.js";

const SIZE = 72;
const MOST_POINTS = 1500;
const COLOURS = Array.from({ length: 32 }, (_, i) => `#${ramp(0.08 + (0.86 * i) / 31).getHexString()}`);
const AHEAD = new Vector3(-2.75, 4.3, -1.95).normalize(); // as the large picture looks at first
const RIGHT = new Vector3().crossVectors(AHEAD, new Vector3(0, 0, 1)).normalize();
const ABOVE = new Vector3().crossVectors(RIGHT, AHEAD);
const SAME = 2; // degrees, below which two rotations look the same

export class CandidateStrip {
  // `choose(rotation)` is called with the rotation that shows the shape upright by the candidate that was clicked.
  constructor(list, choose) {
    this.list = list;
    this.choose = choose;
  }

  // Takes the points of another shape.
  put(points) {
    const step = Math.ceil(points.length / 3 / MOST_POINTS);
    this.points = points.filter((_, i) => Math.floor(i / 3) % step === 0);
    for (const { dataset } of this.list.children) delete dataset.rotation;
  }

  // The candidates of an answer for the shape in some rotation.
  show(candidates, rotation) {
    while (this.list.children.length > candidates.length) this.list.lastChild.remove();
    while (this.list.children.length < candidates.length) this.list.append(this.button());
    candidates.forEach(({ pose, probability }, place) => {
      const button = this.list.children[place];
      const upright = toThree(pose).conjugate().multiply(rotation);
      button.setAttribute("aria-pressed", degrees(angleBetween(toThree(pose), new Quaternion())) < SAME);
      button.setAttribute("aria-label", `Orientation ${place + 1}, probability ${Math.round(100 * probability)}%`);
      button.lastChild.textContent = `${(100 * probability).toFixed(0)}%`;
      button.onclick = () => this.choose(upright);
      const drawn = button.dataset.rotation && new Quaternion(...button.dataset.rotation.split(",").map(Number));
      if (drawn && degrees(angleBetween(drawn, upright)) < SAME) return;
      button.dataset.rotation = upright.toArray().join();
      this.draw(button.firstChild, upright);
    });
  }

  button() {
    const button = document.createElement("button");
    const canvas = document.createElement("canvas");
    const scale = Math.min(devicePixelRatio, 2);
    Object.assign(button, { type: "button", title: "Rotate the shape upright by this orientation" });
    Object.assign(canvas, { width: SIZE * scale, height: SIZE * scale });
    button.append(canvas, document.createElement("span"));
    return button;
  }

  draw(canvas, rotation) {
    const pen = canvas.getContext("2d");
    const size = canvas.width;
    const places = [];
    for (let i = 0; i < this.points.length; i += 3) {
      places.push(new Vector3().fromArray(this.points, i).applyQuaternion(rotation));
    }
    const heights = places.map((place) => place.z);
    const [low, high] = heights.reduce(([a, b], z) => [Math.min(a, z), Math.max(b, z)], [Infinity, -Infinity]);
    places.sort((a, b) => b.dot(AHEAD) - a.dot(AHEAD)); // the nearest are drawn last
    pen.clearRect(0, 0, size, size);
    const dot = size / 36;
    for (const place of places) {
      pen.fillStyle = COLOURS[Math.round((31 * (place.z - low)) / Math.max(high - low, 1e-6))];
      pen.fillRect(size * (0.5 + 0.46 * place.dot(RIGHT)) - dot / 2, size * (0.5 - 0.46 * place.dot(ABOVE)) - dot / 2, dot, dot);
    }
  }
}
