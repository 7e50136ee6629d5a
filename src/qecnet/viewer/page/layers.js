// What is shown of the network's inner state on the shape, each with a line in the legend.

import { Color } from "./three.min.js";
import { agreement, balls, crosses, dots, empty, lines, ramp, RAMP_CSS, styled } from "./drawing.js";
import { angleBetween, degrees, toThree } from "./rotation.js";

const INVALID = "#cf3b2a";
const MOST_VOTERS = 256;

export class VotingRounds {
  // The votes of each round, with the pose and the weights after each iteration of routing.
  constructor(arrays) {
    this.all = [];
    for (let k = 0; arrays[`round${k}.votes`]; k++) {
      const [positions, votes, poses, weights] = ["positions", "votes", "poses", "weights"].map((n) => arrays[`round${k}.${n}`]);
      this.all.push({ positions, votes, poses, weights, count: votes.length / 4, steps: poses.length / 4 });
    }
  }

  // One round after one iteration.
  at(number, step) {
    const round = this.all[Math.min(number, this.all.length - 1)];
    const s = Math.min(step, round.steps - 1);
    const pose = toThree(round.poses.subarray(4 * s, 4 * s + 4));
    const weights = round.weights.subarray(round.count * s, round.count * (s + 1));
    return { ...round, pose, weights, largest: weights.reduce((a, b) => Math.max(a, b), 1e-12) };
  }
}

export const voteOf = (round, i) => toThree(round.votes.subarray(4 * i, 4 * i + 4));

// Fills the stage's layers and the legend; `chosen` says which layers, and the voting round to show.
export function drawLayers(stage, legend, arrays, answer, chosen) {
  const group = empty(stage.layers);
  const entries = [];
  if (chosen.frames && arrays["frames.positions"]) entries.push(...frames(group, arrays));
  if (chosen.patches && arrays["patches.centres"]) entries.push(patches(group, arrays));
  if (chosen.capsules && arrays["capsules.positions"]) entries.push(capsules(group, arrays));
  if (chosen.voters && chosen.round) entries.push(voters(group, chosen.round, answer));
  stage.fade(entries.length > 0, chosen.corrupted);
  const missing = chosen.patches && !arrays["patches.centres"] || chosen.capsules && !arrays["capsules.positions"] ||
    (chosen.votes || chosen.voters) && !chosen.round;
  if (missing) entries.push(["transparent", "This model has no patches, capsules or votes.", false, chosen.offer()]);
  legend.hidden = !entries.length;
  legend.replaceChildren(...entries.map(([background, text, scale, button]) => {
    const line = document.createElement("p");
    const mark = document.createElement("i");
    mark.style.background = background;
    mark.className = scale ? "scale" : "";
    line.append(mark, text, ...(button ? [button] : []));
    return line;
  }));
  stage.draw();
}

function frames(group, arrays) {
  const [positions, poses, valid] = [arrays["frames.positions"], arrays["frames.poses"], arrays["frames.valid"]];
  const pick = (array, width, wanted) => array.filter((_, i) => Boolean(valid[Math.floor(i / width)]) === wanted);
  const [good, bad] = [pick(positions, 3, true), pick(positions, 3, false)];
  group.add(crosses(good, pick(poses, 4, true), 0.085, 0.0042));
  if (bad.length) group.add(dots(bad, () => new Color(INVALID), () => 0.05));
  return [
    [styled("--up"), `${good.length / 3} local reference frames: x red, y green, normal blue`],
    [INVALID, `${bad.length / 3} points without a valid frame`],
  ];
}

function patches(group, arrays) {
  const of = arrays["patches.of"];
  const hue = (patch) => new Color().setHSL((patch * 0.618034) % 1, 0.62, 0.46);
  const count = arrays["patches.centres"].length / 3;
  group.add(lines(arrays["patches.lines"], (i) => hue(of[Math.floor(i / 2)]), 0.75));
  group.add(balls(arrays["patches.centres"], hue, () => 0.024));
  return [
    "conic-gradient(#c44, #cc4, #4c4, #4cc, #44c, #c4c, #c44)",
    `${count} patches, each linked to its ${Math.round(of.length / count)} neighbours`,
  ];
}

// Coloured by rank: the values are close together in one network, and very uneven in the other.
function capsules(group, arrays) {
  const [positions, activations] = [arrays["capsules.positions"], arrays["capsules.activations"]];
  const sorted = activations.slice().sort();
  const rank = (i) => sorted.indexOf(activations[i]) / Math.max(sorted.length - 1, 1);
  const made = balls(positions, (i) => ramp(rank(i)), () => 0.036);
  const number = (x) => x.toFixed(3);
  made.userData.describe = (i) => ({ text: `capsule ${i + 1}: activation ${number(activations[i])}` });
  group.add(made, crosses(positions, arrays["capsules.poses"], 0.1, 0.005));
  return [RAMP_CSS, `capsules ranked by activation, ${number(sorted[0])} to ${number(sorted.at(-1))}`, true];
}

// Each voter with the axes of the pose that it votes for.
function voters(group, round, answer) {
  const final = toThree(answer.pose);
  const order = Array.from({ length: round.count }, (_, i) => i).sort((a, b) => round.weights[b] - round.weights[a]);
  const shown = order.slice(0, MOST_VOTERS);
  const rows = (array, width) => Float32Array.from(shown.flatMap((i) => [...array.subarray(width * i, width * (i + 1))]));
  const angle = shown.map((i) => angleBetween(voteOf(round, i), final));
  const positions = rows(round.positions, 3);
  const radius = (k) => 0.014 + 0.05 * Math.sqrt(round.weights[shown[k]] / round.largest);
  const made = balls(positions, (k) => agreement(angle[k]), radius);
  made.userData.describe = (k) => ({
    text: `vote ${shown[k] + 1}: ${degrees(angle[k]).toFixed(0)}° from the predicted pose, ` +
      `${(100 * round.weights[shown[k]]).toFixed(1)}% of the weight`,
    voter: shown[k],
  });
  group.add(made, crosses(positions, rows(round.votes, 4), 0.15, 0.006));
  const colour = [0, 45, 90].map((d) => `#${agreement((d * Math.PI) / 180).getHexString()}`).join(", ");
  const which = round.count > shown.length ? `the ${shown.length} votes of ${round.count} with the largest weights` : `${round.count} votes`;
  return [`linear-gradient(90deg, ${colour})`, `${which}: 0° to 90° from the predicted pose; size shows the weight`, true];
}
