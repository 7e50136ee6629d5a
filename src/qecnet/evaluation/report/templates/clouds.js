"use strict";
(() => {
  const kept = document.getElementById("clouds");
  if (!kept) return;
  // Each cloud: points as 16 bits; then, of clouds that are shaded, normals as 8 bits; three of each.
  const shaded = "shaded" in kept.dataset;
  const clouds = JSON.parse(kept.textContent).map((text) => {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const count = bytes.length / (shaded ? 9 : 6);
    return {
      p: Float32Array.from(new Int16Array(bytes.buffer, 0, 3 * count), (n) => n / 32000),
      n: Float32Array.from(new Int8Array(bytes.buffer, 6 * count), (n) => n / 127),
    };
  });
  const LEVELS = 24;
  const LIGHT = [-0.36, 0.72, 0.6];
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
  const times = (m, v, i) => m.map((row) => row[0] * v[i] + row[1] * v[i + 1] + row[2] * v[i + 2]);

  // A colour for each level of light: darker where a surface looks away from it, whichever side of it is meant.
  const shades = (colour) => {
    const [r, g, b] = colour.match(/[0-9a-f]{2}/gi).map((hex) => parseInt(hex, 16));
    return Array.from({ length: LEVELS }, (_, i) => {
      const s = 0.5 + 0.68 * (i / (LEVELS - 1));
      return `rgb(${[r, g, b].map((c) => Math.round(s <= 1 ? c * s : c + (255 - c) * (s - 1))).join(",")})`;
    });
  };
  const level = (normal) => {
    const lit = Math.abs(normal[0] * LIGHT[0] + normal[1] * LIGHT[1] + normal[2] * LIGHT[2]);
    return Math.min(LEVELS - 1, Math.round(lit * (LEVELS - 1)));
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
      const colour = style.getPropertyValue(`--${name}`).trim();
      const lit = shaded && shades(colour);
      for (let i = 0; i < p.length; i += 3) {
        const [a, b, d] = times(m, p, i);
        points.push([d, a, b, shaded ? lit[level(times(m, n, i))] : colour]);
      }
    }
    points.sort((p, q) => p[0] - q[0]);
    const side = shaded ? Math.max(1.5, size / 54) : Math.max(1.2, size / 100);
    for (const [d, a, b, colour] of points) {
      if (!shaded) context.globalAlpha = 0.18 + 0.8 * Math.pow((1 + d) / 2, 1.6);
      context.fillStyle = colour;
      context.fillRect(size * (0.5 + 0.47 * a) - side / 2, size * (0.5 - 0.47 * b) - side / 2, side, side);
    }
  }

  const all = [...document.querySelectorAll("canvas[data-parts]")];
  for (const canvas of all) {
    const card = canvas.parentElement;
    if (!views.has(card)) views.set(card, { turn: Number(kept.dataset.turn), tilt: 0.38 });
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
