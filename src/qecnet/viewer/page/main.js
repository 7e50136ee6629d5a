// The page: what is wanted, asked of the server whenever it changes, and what came back, shown.
// `#state` holds the last answer as JSON; `body[data-settled]` says whether it answers all that is wanted.

import { Quaternion } from "./three.min.js";
import { drawLayers, Hearings } from "./layers.js";
import { Link } from "./link.js";
import { align, compare, plain, save, tell, trouble } from "./panel.js";
import { fromThree, toThree } from "./rotation.js";
import { randomTurn, Stage } from "./scene.js";
import { Sphere } from "./votes.js";

const $ = (id) => document.getElementById(id);
const LAYERS = ["frames", "patches", "capsules", "votes", "voters"];
const TURNING = 700; // milliseconds of a random rotation
const FEWEST = 64;
const FIRST = { kind: "chair", seed: 1 };

let hello = null;
let source = null;
let second = null; // { source, turn }
let wished = null; // what the last wish that was sent is about: { source, second }
let good = null; // the same of the last that was answered
let seed = 0;
let turning = null; // the animation of a random rotation
let last = null; // what was answered last, see `answered`
let look = Infinity; // the last, unless another is chosen
let isAfter = false;
const times = [];

const stage = new Stage($("view"), { turned: () => link.want(), looked: () => sphere?.look(stage.camera), hovered });
let sphere = null;

const link = new Link(wish, {
  hello: greeted,
  reply: answered,
  trouble: refused,
  closed: () => {
    trouble("The viewer was closed. Start it again with qec view; this page then goes on.");
    settle();
  },
});

function wish() {
  if (!source) return null;
  wished = { source, second };
  const layers = LAYERS.filter((name) => name !== "voters" && $(`layer-${name}`).checked);
  if ($("layer-voters").checked && !layers.includes("votes")) layers.push("votes");
  return {
    shape: { ...source, turn: unit(stage.shape.quaternion) },
    spoil: spoil(),
    second: second && { ...second.source, turn: unit(second.turn) },
    layers,
    compare: $("compare").checked,
  };
}

const unit = (q) => fromThree(q.clone().normalize());

function greeted(given) {
  const again = hello !== null;
  hello = given;
  trouble(null);
  if (again) {
    forget();
    return;
  }
  for (const list of [$("kind"), $("second-kind")]) {
    list.replaceChildren(...hello.gallery.map((kind) => new Option(plain(kind), kind)));
  }
  if (hello.file !== null) {
    $("kind").prepend(new Option(hello.file, "", true, true));
    source = { upload: 0 };
  } else source = FIRST;
  $("kind").value = source.kind ?? "";
  $("model-name").textContent = hello.features ? "Capsules with features" : "The paper’s capsules";
  $("about").textContent = `qecnet ${hello.version}, model ${hello.model}. Each answer is from frames estimated anew. ` +
    `Uploads stay on the machine that serves this page: at most ${hello.limits.bytes / 2 ** 20} MB and ` +
    `${hello.limits.points.toLocaleString("en")} points, of which ${hello.points.toLocaleString("en")} are drawn.`;
  $("step").max = $("step").value = hello.iterations;
  sliders();
  change();
}

// After a connection that was lost, the server has no uploads of this page any more.
function forget() {
  const isGone = (from) => from?.upload > 0 || (from?.upload === 0 && hello.file === null);
  const [first, other] = [isGone(source), isGone(second?.source)];
  good = null;
  if (other) {
    second = null;
    $("align").open = false;
  }
  if (first) choose(FIRST);
  if (first || other) trouble("The page was disconnected for a while, and its files are gone; upload them again.");
}

// Anything but the turn has changed.
function change() {
  show();
  link.want();
  settle();
}

function show() {
  stage.show({
    points: $("show-points").checked, mesh: $("show-mesh").checked, axes: $("show-axes").checked,
    second: Boolean(second && good?.second), after: isAfter,
  });
}

function answered(header, arrays, asked) {
  const { turn } = asked.shape;
  const answer = header.answer;
  good = wished;
  if (header.shape) {
    stage.put("shape", arrays["shape.points"], arrays["shape.vertices"], arrays["shape.faces"]);
    $("name").textContent = `${plain(header.shape.name)}, ${header.shape.about}`;
    $("mesh-label").hidden = !arrays["shape.vertices"];
    last = { ...last, shape: header.shape, first: { turn: toThree(turn), pose: toThree(answer.pose), label: answer.label } };
  }
  if (header.second) stage.put("second", arrays["second.points"], arrays["second.vertices"], arrays["second.faces"]);
  show();
  Object.assign(last, { header, arrays, answer, answered: toThree(turn), hearings: new Hearings(arrays) });
  const { first } = last;
  const expected = last.answered.clone().multiply(first.turn.clone().conjugate()).multiply(first.pose);
  const reference = { expected, pose: toThree(answer.pose), label: first.label };
  const followed = tell({ answer, answered: last.answered, reference, milliseconds: header.milliseconds, rate: rate() });
  document.body.classList.toggle("comparing", Boolean(header.comparison));
  $("other").hidden = !header.comparison;
  if (header.comparison) compare(header.comparison);
  if (header.alignment) align(header.alignment, isAfter);
  last.state = {
    model: hello.model, shape: last.shape.name, source: asked.shape.kind ? { kind: asked.shape.kind, seed: asked.shape.seed } : "file",
    turn, spoil: asked.spoil, answer, followed_degrees: followed, milliseconds: header.milliseconds,
    ...(header.comparison && { comparison: header.comparison }), ...(header.alignment && { alignment: header.alignment }),
  };
  $("state").textContent = JSON.stringify(last.state);
  place();
  inside();
  settle();
}

function rate() {
  const now = performance.now();
  times.push(now);
  while (times[0] < now - 1000) times.shift();
  return stage.turning || turning ? times.length : 0;
}

function place() {
  if (last?.answer) stage.place(last.answer, last.answered, stage.shape.quaternion, second?.turn, last.header.alignment);
}

// Layers, and the sphere of votes.
function inside() {
  if (!last?.answer) return;
  const votes = $("layer-votes").checked && last.hearings.all.length > 0;
  $("votes").hidden = !votes;
  $("hint").hidden = votes;
  stage.shift(votes && innerWidth > 780 ? 130 : 0);
  const heard = last.hearings.all.length ? last.hearings.at(look, Number($("step").value)) : null;
  const spoiled = Object.keys(SPOILS).some((name) => $(name).value !== (name === "points" ? "100" : "0"));
  const chosen = Object.fromEntries(LAYERS.map((name) => [name, $(`layer-${name}`).checked]));
  drawLayers(stage, $("legend"), last.arrays, last.answer, { ...chosen, heard, spoiled }, hello.features);
  if (!votes) return;
  sphere ??= new Sphere($("sphere"));
  const step = Number($("step").value);
  $("step-name").textContent = step ? `after iteration ${step} of routing` : "before routing";
  $("votes-label").textContent = plain(last.answer.label);
  const looks = last.hearings.all.length;
  $("looks").hidden = looks < 2;
  if ($("looks").children.length !== looks) {
    $("looks").replaceChildren(...last.hearings.all.map((_, k) => {
      const button = document.createElement("button");
      Object.assign(button, { type: "button", textContent: ["First look", "Second look"][k] ?? `Look ${k + 1}` });
      button.setAttribute("role", "radio");
      button.addEventListener("click", () => {
        look = k;
        inside();
      });
      return button;
    }));
  }
  [...$("looks").children].forEach((button, k) => button.setAttribute("aria-checked", k === Math.min(look, looks - 1)));
  sphere.tell(heard);
  sphere.look(stage.camera);
}

function hovered(hit, event) {
  $("tip").hidden = !hit;
  if (hit) {
    const box = $("stage").getBoundingClientRect();
    $("tip").textContent = hit.text;
    $("tip").style.left = `${Math.min(event.clientX - box.left + 14, box.width - 250)}px`;
    $("tip").style.top = `${event.clientY - box.top + 14}px`;
  }
  const voter = hit?.voter ?? null;
  if (voter !== hovered.voter && !$("votes").hidden) {
    const heard = last.hearings.at(look, Number($("step").value));
    sphere.tell(heard, voter);
  }
  hovered.voter = voter;
}

function refused(sentence) {
  trouble(sentence);
  // A shape of which nothing can be said gives way to the one before, unless another was chosen meanwhile.
  const isOf = (other) => other?.source === source && other?.second?.source === second?.source;
  if (good && isOf(wished) && !isOf(good)) {
    source = good.source;
    second = good.second;
    $("kind").value = source.kind ?? "";
    if (!second) $("align").open = false;
    change();
  }
  settle();
}

function settle() {
  document.body.dataset.settled = link.settled && !turning && last?.answer !== undefined;
}

// Turning.

function turnTo(target, milliseconds = TURNING) {
  const from = stage.shape.quaternion.clone();
  const start = performance.now();
  cancelAnimationFrame(turning);
  const step = (now) => {
    const share = Math.min(Math.max((now - start) / milliseconds, 0), 1);
    const eased = share * share * (3 - 2 * share);
    if (share < 1) stage.shape.quaternion.slerpQuaternions(from, target, eased);
    else stage.shape.quaternion.copy(target);
    turning = share < 1 ? requestAnimationFrame(step) : null;
    place();
    link.want();
    settle();
  };
  turning = requestAnimationFrame(step);
  settle();
}

$("random").addEventListener("click", () => turnTo(randomTurn()));
$("reset").addEventListener("click", () => turnTo(new Quaternion()));
stage.rings.addEventListener("objectChange", () => {
  place();
  settle();
});

// Shapes.

function choose(next) {
  source = next;
  stage.shape.quaternion.identity();
  $("kind").value = next.kind ?? "";
  if (second && next.kind && second.source.kind) second = { source: { kind: next.kind, seed: next.seed + 1 }, turn: second.turn };
  if (next.kind) $("second-kind").value = next.kind;
  cancelAnimationFrame(turning);
  turning = null;
  trouble(null);
  change();
}

function stepped(by) {
  const kinds = hello.gallery;
  const at = kinds.indexOf(source.kind);
  choose({ kind: kinds[(at + by + kinds.length) % kinds.length], seed: 1 });
}

$("previous").addEventListener("click", () => stepped(-1));
$("next").addEventListener("click", () => stepped(1));
$("kind").addEventListener("change", () => choose($("kind").value ? { kind: $("kind").value, seed: 1 } : { upload: 0 }));
$("another").addEventListener("click", () => choose({ kind: source.kind ?? "chair", seed: (source.seed ?? 0) + 1 }));

async function upload(file, into) {
  if (!file) return;
  if (file.size > hello.limits.bytes) {
    trouble(`${file.name}: is larger than ${hello.limits.bytes / 2 ** 20} MB; give a smaller file`);
    return;
  }
  trouble(null);
  $("name").textContent = `reading ${file.name}…`;
  document.body.dataset.settled = false;
  try {
    const response = await fetch(`upload/${hello.tab}?name=${encodeURIComponent(file.name)}`, { method: "POST", body: file });
    const given = await response.json();
    if (given.trouble) throw new Error(given.trouble);
    into({ upload: given.upload });
  } catch (error) {
    trouble(error instanceof TypeError ? `${file.name}: did not reach the viewer` : error.message);
  } finally {
    if (last?.shape) $("name").textContent = `${plain(last.shape.name)}, ${last.shape.about}`;
    settle();
  }
}

const chooseSecond = (next) => {
  second = { source: next, turn: second?.turn ?? randomTurn() };
  trouble(null);
  change();
};
for (const [button, field, into] of [["upload", "file", choose], ["second-upload", "second-file", chooseSecond]]) {
  $(button).addEventListener("click", () => $(field).click());
  $(field).addEventListener("change", () => {
    upload($(field).files[0], into);
    $(field).value = "";
  });
}
for (const kind of ["dragover", "dragleave", "drop"]) {
  window.addEventListener(kind, (event) => {
    event.preventDefault();
    $("drop").hidden = kind !== "dragover";
    if (kind === "drop") upload(event.dataTransfer.files[0], choose);
  });
}

// Spoiling.

const log = (share) => Math.round(FEWEST * (hello.points / FEWEST) ** share);
const SPOILS = {
  points: [(share) => log(share), (value) => value.toLocaleString("en")],
  noise: [(share) => 0.1 * share ** 2, (value) => `${(100 * value).toFixed(1)} %`],
  outliers: [(share) => 0.5 * share ** 2, (value) => `${(100 * value).toFixed(1)} %`],
  occlusion: [(share) => 0.8 * share, (value) => `${(100 * value).toFixed(0)} %`],
};
const spoil = () => ({
  ...Object.fromEntries(Object.entries(SPOILS).map(([name, [value]]) => [name, value($(name).value / 100)])), seed,
});

function sliders() {
  const values = spoil();
  for (const [name, [, text]] of Object.entries(SPOILS)) $(name).parentElement.querySelector("output").textContent = text(values[name]);
}
for (const name of Object.keys(SPOILS)) {
  $(name).addEventListener("input", () => {
    sliders();
    change();
  });
}
$("redraw").addEventListener("click", () => {
  seed += 1;
  change();
});
$("mend").addEventListener("click", () => {
  for (const name of Object.keys(SPOILS)) $(name).value = name === "points" ? 100 : 0;
  seed = 0;
  sliders();
  change();
});

// Layers and the rest.

for (const name of LAYERS) {
  $(`layer-${name}`).addEventListener("change", () => {
    change();
    inside();
  });
}
for (const name of ["points", "mesh", "axes"]) $(`show-${name}`).addEventListener("change", show);
$("step").addEventListener("input", () => inside());
$("compare").addEventListener("change", change);

$("align").addEventListener("toggle", () => {
  if ($("align").open === Boolean(second)) return;
  const kind = source.kind ?? last.answer.label;
  const made = hello.gallery.includes(kind) ? kind : hello.gallery[0];
  $("second-kind").value = made;
  second = $("align").open ? { source: { kind: made, seed: (source.seed ?? 0) + 1 }, turn: randomTurn() } : null;
  change();
});
$("second-kind").addEventListener("change", () => chooseSecond({ kind: $("second-kind").value, seed: 1 }));
$("second-another").addEventListener("click", () =>
  chooseSecond({ kind: $("second-kind").value, seed: (second?.source.seed ?? 0) + 1 }));
$("second-random").addEventListener("click", () => {
  second.turn = randomTurn();
  change();
});
for (const name of ["before", "after"]) {
  $(name).addEventListener("click", () => {
    isAfter = name === "after";
    for (const other of ["before", "after"]) $(other).setAttribute("aria-checked", other === name);
    if (last.header.alignment) align(last.header.alignment, isAfter);
    show();
  });
}

const stem = () => (last.shape.name.replace(/\.[a-z]+$/i, "") || "shape");
$("save-png").addEventListener("click", async () => save(await stage.picture(), `${stem()}.png`));
$("save-json").addEventListener("click", () =>
  save(new Blob([`${JSON.stringify(last.state, null, 2)}\n`], { type: "application/json" }), `${stem()}.json`));
