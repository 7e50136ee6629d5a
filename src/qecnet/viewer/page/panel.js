// Words and bars beside the picture.

import { degrees, described, off } from "./rotation.js";

const $ = (id) => document.getElementById(id);
export const plain = (name) => name.replaceAll("_", " ");
const percent = (share) => `${(100 * share).toFixed(share > 0.9995 || share < 0.0005 ? 0 : share < 0.1 ? 1 : 0)} %`;
const MOST_BARS = 12;

// Few classes keep their places, so that one sees bars stay; of many the highest are shown.
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

const SAME = { 1: "", 2: ", or half a turn from there", 4: ", or quarter turns from there", any: ", up to any turn about up" };

export function tell({ answer, answered, reference, milliseconds, rate }) {
  $("label").textContent = plain(answer.label);
  document.querySelector(".kicker").textContent = /^[aeiou]/.test(answer.label) ? "This is an" : "This is a";
  $("sure").textContent = `${percent(answer.confidence)} sure, from ${answer.points.toLocaleString("en")} points`;
  bars($("bars"), answer.scores);
  $("turned").textContent = described(answered);
  const here = `${milliseconds.toFixed(0)} ms`;
  $("speed").textContent = rate > 1 ? `${here}, ${rate} a second` : here;
  if (!reference || reference.label !== answer.label) {
    $("followed").textContent = "– (the name changed)";
    return null;
  }
  const error = degrees(off(reference.expected, reference.pose, answer.symmetry));
  $("followed").textContent = `to within ${error.toFixed(error < 10 ? 1 : 0)}°${SAME[answer.symmetry]}`;
  return error;
}

export function compare({ label, upright, scores }) {
  bars($("other-bars"), scores);
  $("other-note").textContent =
    label === upright
      ? `Says ${plain(label)}, as for the shape before it was turned.`
      : `Said ${plain(upright)} before the shape was turned, and now ${plain(label)}.`;
}

export function align(alignment, isAfter) {
  const number = (x) => x.toFixed(3);
  const kept = document.createElement("b");
  kept.textContent = `${number(alignment.before)} → ${number(alignment.after)}`;
  $("residual").replaceChildren(
    kept,
    " root mean square distance to the second shape’s points, before and after; both shapes are scaled to radius 1. ",
    `The second is taken for a ${plain(alignment.target.label)}.`,
    isAfter ? " Orange: the first, moved." : "",
  );
}

export function trouble(sentence) {
  $("trouble").hidden = !sentence;
  $("trouble").querySelector("p").textContent = sentence ?? "";
}
$("trouble-close").addEventListener("click", () => trouble(null));

export function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
