"use strict";
(() => {
  // Each cloud: points as 16 bits, then normals as 8 bits, three of each.
  const clouds = JSON.parse(document.getElementById("scans").textContent).map((text) => {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const count = bytes.length / 9;
    return { p: new Int16Array(bytes.buffer, 0, 3 * count), n: new Int8Array(bytes.buffer, 6 * count, 3 * count) };
  });
  const LEVELS = 24;
  const views = new WeakMap();

  // The rows of the matrix of a unit quaternion, WXYZ.
  const matrix = ([w, x, y, z]) => [
    [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
    [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
    [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
  ];
  // z is up; rows are the picture's right, its up, and towards the eye.
  const camera = ({ turn, tilt }) => {
    const [ct, st, cp, sp] = [Math.cos(turn), Math.sin(turn), Math.cos(tilt), Math.sin(tilt)];
    return [[-st, ct, 0], [-sp * ct, -sp * st, cp], [cp * ct, cp * st, sp]];
  };
  const product = (a, b) => a.map((row) => [0, 1, 2].map((j) => row[0] * b[0][j] + row[1] * b[1][j] + row[2] * b[2][j]));
  const light = [-0.36, 0.72, 0.6];

  // Darker where a surface looks away from the light, whichever side of it is meant.
  const shades = (colour) => {
    const [r, g, b] = colour.match(/[0-9a-f]{2}/gi).map((hex) => parseInt(hex, 16));
    return Array.from({ length: LEVELS }, (_, i) => {
      const s = 0.5 + 0.68 * (i / (LEVELS - 1));
      return `rgb(${[r, g, b].map((c) => Math.round(s <= 1 ? c * s : c + (255 - c) * (s - 1))).join(",")})`;
    });
  };

  function draw(canvas) {
    const size = Math.round(canvas.clientWidth * (window.devicePixelRatio || 1));
    if (!size) return;
    canvas.width = canvas.height = size;
    const context = canvas.getContext("2d");
    const style = getComputedStyle(document.documentElement);
    const seen = camera(views.get(canvas.parentElement));
    const points = [];
    for (const [place, w, x, y, z, name] of JSON.parse(canvas.dataset.parts)) {
      const m = product(seen, matrix([w, x, y, z]));
      const { p, n } = clouds[place];
      const colours = shades(style.getPropertyValue(`--${name}`).trim());
      for (let i = 0; i < p.length; i += 3) {
        const [a, b, d] = m.map((r) => (r[0] * p[i] + r[1] * p[i + 1] + r[2] * p[i + 2]) / 32000);
        const lit = m.reduce((sum, r, k) => sum + (light[k] * (r[0] * n[i] + r[1] * n[i + 1] + r[2] * n[i + 2])) / 127, 0);
        points.push([d, a, b, colours[Math.min(LEVELS - 1, Math.round(Math.abs(lit) * (LEVELS - 1)))]]);
      }
    }
    points.sort((p, q) => p[0] - q[0]);
    const side = Math.max(1.5, size / 54);
    for (const [, a, b, colour] of points) {
      context.fillStyle = colour;
      context.fillRect(size * (0.5 + 0.48 * a) - side / 2, size * (0.5 - 0.48 * b) - side / 2, side, side);
    }
  }

  const all = [...document.querySelectorAll("canvas[data-parts]")];
  for (const canvas of all) {
    const card = canvas.parentElement;
    if (!views.has(card)) views.set(card, { turn: -2.18, tilt: 0.38 });
    let last = null;
    canvas.addEventListener("pointerdown", (event) => {
      last = [event.clientX, event.clientY];
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!last) return;
      const view = views.get(card);
      view.turn -= (event.clientX - last[0]) * 0.012;
      view.tilt = Math.max(-1.57, Math.min(1.57, view.tilt + (event.clientY - last[1]) * 0.012));
      last = [event.clientX, event.clientY];
      card.querySelectorAll("canvas").forEach(draw);
    });
    for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => { last = null; });
  }
  const drawAll = () => all.forEach(draw);
  drawAll();
  addEventListener("resize", drawAll);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
})();
