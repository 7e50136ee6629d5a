// The text and the bars next to the picture.

import { degrees, describe, orientationError } from "./rotation.js";

const $ = (id) => document.getElementById(id);
export const plain = (name) => name.replaceAll("_", " ");
export const capital = (name) => name.charAt(0).toUpperCase() + name.slice(1);
const percent = (share) => `${(100 * share).toFixed(share > 0.9995 || share < 0.0005 ? 0 : share < 0.1 ? 1 : 0)}%`;
const MOST_BARS = 12;

// A few classes keep their rows, so that bars stay in place; of many classes the highest are shown.
export function bars(list, scores) {
  const best = Object.keys(scores)[0];
  const names = Object.keys(scores).slice(0, MOST_BARS);
  if (Object.keys(scores).length <= MOST_BARS) names.sort();
  while (list.children.length > names.length) list.lastChild.remove();
  while (list.children.length < names.length) {
    const row = document.createElement("li");
    row.append(document.createElement("span"), document.createElement("span"));
    list.append(row);
  }
  names.forEach((name, place) => {
    const row = list.children[place];
    row.style.setProperty("--share", scores[name]);
    row.classList.toggle("best", name === best);
    row.children[0].textContent = plain(name);
    row.children[1].textContent = percent(scores[name]);
  });
}

// What is disregarded for the symmetry of the class.
const UP_TO = { 1: "", 2: ", up to half turns", 4: ", up to quarter turns", any: ", up to rotations about up" };

export const hasClasses = (answer) => Object.keys(answer.scores).length > 1;

export function showAnswer({ answer, view, rotation, reference, milliseconds, rate }) {
  const named = hasClasses(answer);
  const points = `${answer.points.toLocaleString("en")} points` +
    (view ? ` that the camera sees (${percent(view.visible)} of the surface)` : "") +
    (view && !view.trained ? "; this model was trained on whole shapes only" : "");
  $("kicker").textContent = named ? "Predicted class" : "Confidence in the up direction";
  $("label").textContent = named ? plain(answer.label) : percent(answer.up_confidence);
  $("confidence").textContent = named ? `${percent(answer.confidence)} confidence, from ${points}` : `within 10°, from ${points}`;
  $("bars").hidden = !named;
  bars($("bars"), answer.scores);
  $("rotation").textContent = describe(rotation);
  const here = `${milliseconds.toFixed(0)} ms`;
  $("speed").textContent = rate > 1 ? `${here}, ${rate} per second` : here;
  if (view || reference.label !== answer.label) {
    $("equivariance").textContent = view ? "–" : "– (the class changed)";
    return null;
  }
  const error = degrees(orientationError(reference.expected, reference.pose, answer.symmetry));
  $("equivariance").textContent = `${error.toFixed(error < 10 ? 1 : 0)}°${UP_TO[answer.symmetry]}`;
  return error;
}

export function showComparison({ label, upright, scores }) {
  bars($("baseline-bars"), scores);
  $("baseline-note").textContent =
    label === upright
      ? `Predicts ${plain(label)}, as before the rotation.`
      : `Predicted ${plain(upright)} before the rotation, and now ${plain(label)}.`;
}

export function showAlignment(alignment, isAfter) {
  const number = (x) => x.toFixed(3);
  const change = document.createElement("b");
  change.textContent = `${number(alignment.before)} → ${number(alignment.after)}`;
  $("residual").replaceChildren(
    change,
    " root mean square distance to the second shape’s points, before and after; both shapes have radius 1. ",
    hasClasses(alignment.target) ? `Predicted class of the second: ${plain(alignment.target.label)}.` : "",
    isAfter ? " Orange: the first shape, aligned." : "",
  );
}

export function showError(sentence) {
  $("error").hidden = !sentence;
  $("error").querySelector("p").textContent = sentence ?? "";
}
$("error-close").addEventListener("click", () => showError(null));

export function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
