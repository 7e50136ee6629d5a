// What is shown of the network's inside, on the shape itself, each with a line that says what it is.

import { Color } from "./three.min.js";
import { agreement, balls, crosses, dots, emptied, lines, ramp, RAMP_CSS, styled } from "./drawing.js";
import { angleBetween, degrees, toThree } from "./rotation.js";

const INVALID = "#cf3b2a";
const MOST_VOTERS = 256;

export class Hearings {
  // The votes of each look, with the pose and the weights after each step of routing.
  constructor(arrays) {
    this.all = [];
    for (let k = 0; arrays[`hearing${k}.votes`]; k++) {
      const [places, votes, poses, weights] = ["places", "votes", "poses", "weights"].map((n) => arrays[`hearing${k}.${n}`]);
      this.all.push({ places, votes, poses, weights, count: votes.length / 4, steps: poses.length / 4 });
    }
  }

  // One look after one step.
  at(look, step) {
    const h = this.all[Math.min(look, this.all.length - 1)];
    const s = Math.min(step, h.steps - 1);
    const pose = toThree(h.poses.subarray(4 * s, 4 * s + 4));
    const weights = h.weights.subarray(h.count * s, h.count * (s + 1));
    return { ...h, pose, weights, largest: weights.reduce((a, b) => Math.max(a, b), 1e-12) };
  }
}

export const voteOf = (heard, i) => toThree(heard.votes.subarray(4 * i, 4 * i + 4));

// Fills the stage's layers and the legend; `chosen` says which layers, which look and which step.
export function drawLayers(stage, legend, arrays, answer, chosen, features) {
  const group = emptied(stage.layers);
  const said = [];
  if (chosen.frames && arrays["frames.places"]) said.push(...frames(group, arrays));
  if (chosen.patches && arrays["patches.centres"]) said.push(patches(group, arrays));
  if (chosen.capsules && arrays["capsules.places"]) said.push(capsules(group, arrays, features));
  if (chosen.voters && chosen.heard) said.push(voters(group, chosen.heard, answer));
  stage.fade(said.length > 0, chosen.spoiled);
  legend.hidden = !said.length;
  legend.replaceChildren(...said.map(([background, text, scale]) => {
    const line = document.createElement("p");
    const mark = document.createElement("i");
    mark.style.background = background;
    mark.className = scale ? "scale" : "";
    line.append(mark, text);
    return line;
  }));
  stage.draw();
}

function frames(group, arrays) {
  const [places, poses, valid] = [arrays["frames.places"], arrays["frames.poses"], arrays["frames.valid"]];
  const pick = (array, width, wanted) => array.filter((_, i) => Boolean(valid[Math.floor(i / width)]) === wanted);
  const [good, bad] = [pick(places, 3, true), pick(places, 3, false)];
  group.add(crosses(good, pick(poses, 4, true), 0.085, 0.0042));
  if (bad.length) group.add(dots(bad, () => new Color(INVALID), () => 0.05));
  const said = [[styled("--up"), `${good.length / 3} local frames: x red, y green, normal blue`]];
  return [...said, [INVALID, bad.length === 3 ? "1 place without a valid frame" : `${bad.length / 3} places without a valid frame`]];
}

function patches(group, arrays) {
  const of = arrays["patches.of"];
  const hue = (patch) => new Color().setHSL((patch * 0.618034) % 1, 0.62, 0.46);
  const size = of.length / (arrays["patches.centres"].length / 3);
  group.add(lines(arrays["patches.lines"], (i) => hue(of[Math.floor(i / 2)]), 0.75));
  group.add(balls(arrays["patches.centres"], hue, () => 0.024));
  return [
    "conic-gradient(#c44, #cc4, #4c4, #4cc, #44c, #c4c, #c44)",
    `${arrays["patches.centres"].length / 3} patches, each with the ${Math.round(size)} places it reads`,
  ];
}

function capsules(group, arrays, features) {
  const [places, activations] = [arrays["capsules.places"], arrays["capsules.activations"]];
  const largest = activations.reduce((a, b) => Math.max(a, b), 1e-12);
  const least = features ? 0 : activations.reduce((a, b) => Math.min(a, b), 1);
  // Trust is shared out very unevenly.
  const share = (i) => ((activations[i] - least) / Math.max(largest - least, 1e-12)) ** (features ? 0.33 : 1);
  const made = balls(places, (i) => ramp(share(i)), () => 0.036);
  const number = (x) => (features ? `${(100 * x).toFixed(1)} %` : x.toFixed(2));
  const what = features ? "trusted" : "activation";
  // The paper's network has several voters where each of these is.
  made.userData.said = (i) => ({ text: `capsule ${i + 1}: ${what} ${number(activations[i])}`, voter: features ? i : null });
  group.add(made, crosses(places, arrays["capsules.poses"], 0.1, 0.005));
  const told = features ? "capsules by how far their vote is trusted (colours: cube root)" : "first layer’s capsules by mean activation";
  return [RAMP_CSS, `${told}, ${number(least)} to ${number(largest)}`, true];
}

// Each voter carries the pose that it votes for.
function voters(group, heard, answer) {
  const final = toThree(answer.pose);
  const order = Array.from({ length: heard.count }, (_, i) => i).sort((a, b) => heard.weights[b] - heard.weights[a]);
  const shown = order.slice(0, MOST_VOTERS);
  const rows = (array, width) => Float32Array.from(shown.flatMap((i) => [...array.subarray(width * i, width * (i + 1))]));
  const angle = shown.map((i) => angleBetween(voteOf(heard, i), final));
  const places = rows(heard.places, 3);
  const radius = (k) => 0.014 + 0.05 * Math.sqrt(heard.weights[shown[k]] / heard.largest);
  const made = balls(places, (k) => agreement(angle[k]), radius);
  made.userData.said = (k) => ({
    text: `voter ${shown[k] + 1} is ${degrees(angle[k]).toFixed(0)}° off the answer and has ${(100 * heard.weights[shown[k]]).toFixed(1)} % of the weight`,
    voter: shown[k],
  });
  group.add(made, crosses(places, rows(heard.votes, 4), 0.15, 0.006));
  const colour = [0, 45, 90].map((d) => `#${agreement((d * Math.PI) / 180).getHexString()}`).join(", ");
  const few = heard.count > shown.length ? `the ${shown.length} heaviest of ${heard.count} voters` : `${heard.count} voters`;
  return [`linear-gradient(90deg, ${colour})`, `${few}, with the axes each votes for: 0° to 90° off; size is weight`, true];
}
