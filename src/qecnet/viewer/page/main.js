// The page: sends a request whenever something changes, and shows the response.
// `#state` holds the last response as JSON; `body[data-settled]` says whether it is up to date.

import { Quaternion } from "./three.min.js";
import { CandidateStrip } from "./candidates.js";
import { drawLayers, VotingRounds } from "./layers.js";
import { Link } from "./link.js";
import { capital, plain, save, showAlignment, showAnswer, showComparison, showError } from "./panel.js";
import { fromThree, toThree } from "./rotation.js";
import { randomRotation, Stage } from "./scene.js";
import { Sphere } from "./votes.js";

const $ = (id) => document.getElementById(id);
const LAYERS = ["frames", "patches", "capsules", "votes", "voters"];
const ANIMATION = 700; // milliseconds of a random rotation
const FEWEST_POINTS = 64;
const FIRST = { kind: "chair", seed: 1 };

let session = null;
let source = null;
let second = null; // { source, rotation }
let camera = null; // where the camera is that sees the shape, relative to its centre; null for the whole shape
let requested = null; // what the last request was about, see `subject`
let good = null; // what the last response was about that was no error
let seed = 0;
let animation = null; // of a random rotation
let last = null; // the last response, see `respond`
let roundNumber = Infinity; // the last voting round, unless another is chosen
let isAfter = false;
const times = [];

const stage = new Stage($("view"), { rotated: () => link.request(), looked: () => sphere?.look(stage.camera), hovered });
const strip = new CandidateStrip($("strip"), rotateTo);
let sphere = null;

const link = new Link(request, {
  opened: open,
  response: show,
  error: fail,
  closed: (sentence) => {
    showError(sentence);
    settle();
  },
});

function request() {
  if (!source) return null;
  requested = subject();
  const layers = LAYERS.filter((name) => name !== "voters" && $(`layer-${name}`).checked);
  if ($("layer-voters").checked && !layers.includes("votes")) layers.push("votes");
  return {
    shape: { ...source, rotation: unit(stage.shape.quaternion) },
    corruption: corruption(),
    second: second && { ...second.source, rotation: unit(second.rotation) },
    layers,
    compare: $("compare").checked,
    camera,
    model: $("model").value,
  };
}

const subject = () => ({ source, second, camera, model: $("model").value });

const unit = (q) => fromThree(q.clone().normalize());

function open(opened) {
  const again = session !== null;
  session = opened;
  showError(null);
  if (again) {
    forget();
    return;
  }
  for (const list of [$("kind"), $("second-kind")]) {
    list.replaceChildren(...session.gallery.map((kind) => new Option(capital(plain(kind)), kind)));
  }
  if (session.file !== null) {
    $("kind").prepend(new Option(session.file, "", true, true));
    source = { upload: 0 };
  } else source = FIRST;
  $("kind").value = source.kind ?? "";
  $("model").replaceChildren(...session.models.map((name) => new Option(name, name)));
  $("about").textContent = `qecnet ${session.version}. Local reference frames are computed again for each ` +
    `prediction. Uploads stay on the machine that serves this page: at most ${session.limits.bytes / 2 ** 20} MB and ` +
    `${session.limits.points.toLocaleString("en")} points, of which ${session.points.toLocaleString("en")} are sampled.`;
  sliders();
  change();
}

// A new session has no uploads of the one before.
function forget() {
  const isGone = (from) => from?.upload > 0 || (from?.upload === 0 && session.file === null);
  const [first, other] = [isGone(source), isGone(second?.source)];
  good = null;
  if (other) {
    second = null;
    $("align").open = false;
  }
  if (first) choose(FIRST);
  if (first || other) showError("The page was disconnected and its uploads are gone; upload them again.");
}

// Anything but the rotation has changed.
function change() {
  showShapes();
  link.request();
  settle();
}

function showShapes() {
  stage.show({
    points: $("show-points").checked, mesh: $("show-mesh").checked, axes: $("show-axes").checked,
    second: Boolean(second && good?.second), after: isAfter,
  });
  $("whole").hidden = !camera;
}

function show(header, arrays, sent) {
  const { rotation } = sent.shape;
  const answer = header.answer;
  good = requested;
  if (header.shape) {
    stage.put("shape", arrays["shape.points"], arrays["shape.vertices"], arrays["shape.faces"]);
    $("name").textContent = `${plain(header.shape.name)}, ${header.shape.size}`;
    $("mesh-label").hidden = !arrays["shape.vertices"];
    strip.put(arrays["shape.points"]);
    last = { ...last, shape: header.shape, first: null };
  }
  if (header.model !== last.header?.model) last.first = null;
  if (!header.view) last.first ??= { rotation: toThree(rotation), pose: toThree(answer.pose), label: answer.label };
  stage.see(arrays["view.points"], header.view?.camera);
  if (header.second) stage.put("second", arrays["second.points"], arrays["second.vertices"], arrays["second.faces"]);
  showShapes();
  Object.assign(last, { header, arrays, answer, rotation: toThree(rotation), rounds: new VotingRounds(arrays) });
  const { first } = last;
  const expected = first && last.rotation.clone().multiply(first.rotation.clone().conjugate()).multiply(first.pose);
  const reference = { expected, pose: toThree(answer.pose), label: first?.label };
  const { view, milliseconds } = header;
  const error = showAnswer({ answer, view, rotation: last.rotation, reference, milliseconds, rate: rate() });
  $("candidates").hidden = !answer.candidates.length;
  strip.show(answer.candidates, last.rotation);
  document.body.classList.toggle("comparing", Boolean(header.comparison));
  $("baseline").hidden = !header.comparison;
  if (header.comparison) showComparison(header.comparison);
  if (header.alignment) showAlignment(header.alignment, isAfter);
  last.state = {
    model: header.model, shape: last.shape.name, source: sent.shape.kind ? { kind: sent.shape.kind, seed: sent.shape.seed } : "file",
    rotation, corruption: sent.corruption, answer, equivariance_error_degrees: error, milliseconds: header.milliseconds,
    ...(view && { camera: view }), ...(header.comparison && { comparison: header.comparison }), ...(header.alignment && { alignment: header.alignment }),
  };
  $("state").textContent = JSON.stringify(last.state);
  place();
  showLayers();
  settle();
}

function rate() {
  const now = performance.now();
  times.push(now);
  while (times[0] < now - 1000) times.shift();
  return stage.rotating || animation ? times.length : 0;
}

function place() {
  if (last?.answer) stage.place(last.answer, last.rotation, stage.shape.quaternion, second?.rotation, last.header.alignment);
}

// Layers, and the sphere of votes.
function showLayers() {
  if (!last?.answer) return;
  const votes = $("layer-votes").checked && last.rounds.all.length > 0;
  $("votes").hidden = !votes;
  $("hint").hidden = votes || Boolean(camera);
  stage.shift(votes && innerWidth > 780 ? 130 : 0);
  const count = last.rounds.all.length;
  if (count && Number($("step").max) !== last.rounds.all[0].steps - 1) $("step").max = $("step").value = last.rounds.all[0].steps - 1;
  const step = Number($("step").value);
  const round = count ? last.rounds.at(roundNumber, step) : null;
  const corrupted = last.header.view || Object.keys(CORRUPTIONS).some((name) => $(name).value !== (name === "points" ? "100" : "0"));
  const chosen = Object.fromEntries(LAYERS.map((name) => [name, $(`layer-${name}`).checked]));
  drawLayers(stage, $("legend"), last.arrays, last.answer, { ...chosen, round, corrupted, offer });
  if (!votes) return;
  sphere ??= new Sphere($("sphere"));
  $("step-name").textContent = step ? `after routing iteration ${step}` : "before routing";
  $("votes-label").textContent = plain(last.answer.label);
  $("rounds").hidden = count < 2;
  if ($("rounds").children.length !== count) {
    $("rounds").replaceChildren(...last.rounds.all.map((_, k) => {
      const button = document.createElement("button");
      Object.assign(button, { type: "button", textContent: `Round ${k + 1}` });
      button.setAttribute("role", "radio");
      button.addEventListener("click", () => {
        roundNumber = k;
        showLayers();
      });
      return button;
    }));
  }
  [...$("rounds").children].forEach((button, k) => button.setAttribute("aria-checked", k === Math.min(roundNumber, count - 1)));
  sphere.show(round);
  sphere.look(stage.camera);
}

// A button that chooses a model with patches, capsules and votes.
function offer() {
  const button = document.createElement("button");
  Object.assign(button, { type: "button", id: "offer", textContent: `Use ${session.voting}` });
  button.addEventListener("click", () => {
    $("model").value = session.voting;
    change();
  });
  return button;
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
    sphere.show(last.rounds.at(roundNumber, Number($("step").value)), voter);
  }
  hovered.voter = voter;
}

function fail(sentence) {
  showError(sentence);
  // What has no prediction is replaced by what was shown before, unless something else was chosen meanwhile.
  const now = subject();
  const isOf = (other) => other?.source === source && other?.second?.source === second?.source &&
    other?.camera === camera && other?.model === now.model;
  if (good && isOf(requested) && !isOf(good)) {
    ({ source, second, camera } = good);
    $("model").value = good.model;
    $("kind").value = source.kind ?? "";
    if (!second) $("align").open = false;
    change();
  }
  settle();
}

function settle() {
  document.body.dataset.settled = link.settled && !animation && last?.answer !== undefined;
}

// Rotations.

function rotateTo(target) {
  const from = stage.shape.quaternion.clone();
  const start = performance.now();
  cancelAnimationFrame(animation);
  const step = (now) => {
    const share = Math.min(Math.max((now - start) / ANIMATION, 0), 1);
    const eased = share * share * (3 - 2 * share);
    if (share < 1) stage.shape.quaternion.slerpQuaternions(from, target, eased);
    else stage.shape.quaternion.copy(target);
    animation = share < 1 ? requestAnimationFrame(step) : null;
    place();
    link.request();
    settle();
  };
  animation = requestAnimationFrame(step);
  settle();
}

$("random").addEventListener("click", () => rotateTo(randomRotation()));
$("reset").addEventListener("click", () => rotateTo(new Quaternion()));
stage.rings.addEventListener("objectChange", () => {
  place();
  settle();
});

// The camera.

$("see").addEventListener("click", () => {
  camera = stage.camera.position.clone().sub(stage.shape.position).toArray();
  change();
});
$("whole").addEventListener("click", () => {
  camera = null;
  change();
});
$("model").addEventListener("change", change);

// Shapes.

function choose(next) {
  source = next;
  stage.shape.quaternion.identity();
  $("kind").value = next.kind ?? "";
  if (second && next.kind && second.source.kind) second = { source: { kind: next.kind, seed: next.seed + 1 }, rotation: second.rotation };
  if (next.kind) $("second-kind").value = next.kind;
  cancelAnimationFrame(animation);
  animation = null;
  showError(null);
  change();
}

function stepKind(by) {
  const kinds = session.gallery;
  const at = kinds.indexOf(source.kind);
  choose({ kind: kinds[(at + by + kinds.length) % kinds.length], seed: 1 });
}

$("previous").addEventListener("click", () => stepKind(-1));
$("next").addEventListener("click", () => stepKind(1));
$("kind").addEventListener("change", () => choose($("kind").value ? { kind: $("kind").value, seed: 1 } : { upload: 0 }));
$("another").addEventListener("click", () => choose({ kind: source.kind ?? "chair", seed: (source.seed ?? 0) + 1 }));

async function upload(file, into) {
  if (!file) return;
  if (file.size > session.limits.bytes) {
    showError(`${file.name} is larger than ${session.limits.bytes / 2 ** 20} MB; upload a smaller file.`);
    return;
  }
  showError(null);
  $("name").textContent = `Reading ${file.name}…`;
  document.body.dataset.settled = false;
  try {
    const response = await fetch(`upload/${session.key}?name=${encodeURIComponent(file.name)}`, { method: "POST", body: file });
    const result = await response.json();
    if (result.error) throw new Error(result.error);
    into({ upload: result.upload });
  } catch (error) {
    showError(error instanceof TypeError ? `${file.name}: the viewer could not be reached` : error.message);
  } finally {
    if (last?.shape) $("name").textContent = `${plain(last.shape.name)}, ${last.shape.size}`;
    settle();
  }
}

const chooseSecond = (next) => {
  second = { source: next, rotation: second?.rotation ?? randomRotation() };
  showError(null);
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

// Corruptions.

const log = (share) => Math.round(FEWEST_POINTS * (session.points / FEWEST_POINTS) ** share);
const CORRUPTIONS = {
  points: [(share) => log(share), (value) => value.toLocaleString("en")],
  noise: [(share) => 0.1 * share ** 2, (value) => `${(100 * value).toFixed(1)}%`],
  outliers: [(share) => 0.5 * share ** 2, (value) => `${(100 * value).toFixed(1)}%`],
  occlusion: [(share) => 0.8 * share, (value) => `${(100 * value).toFixed(0)}%`],
};
const corruption = () => ({
  ...Object.fromEntries(Object.entries(CORRUPTIONS).map(([name, [value]]) => [name, value($(name).value / 100)])), seed,
});

function sliders() {
  const values = corruption();
  for (const [name, [, text]] of Object.entries(CORRUPTIONS)) $(name).parentElement.querySelector("output").textContent = text(values[name]);
}
for (const name of Object.keys(CORRUPTIONS)) {
  $(name).addEventListener("input", () => {
    sliders();
    change();
  });
}
$("resample").addEventListener("click", () => {
  seed += 1;
  change();
});
$("undo").addEventListener("click", () => {
  for (const name of Object.keys(CORRUPTIONS)) $(name).value = name === "points" ? 100 : 0;
  seed = 0;
  sliders();
  change();
});

// Layers and the rest.

for (const name of LAYERS) {
  $(`layer-${name}`).addEventListener("change", () => {
    change();
    showLayers();
  });
}
for (const name of ["points", "mesh", "axes"]) $(`show-${name}`).addEventListener("change", showShapes);
$("step").addEventListener("input", showLayers);
$("compare").addEventListener("change", change);

$("align").addEventListener("toggle", () => {
  if ($("align").open === Boolean(second)) return;
  const kind = source.kind ?? last.answer.label;
  const made = session.gallery.includes(kind) ? kind : session.gallery[0];
  $("second-kind").value = made;
  second = $("align").open ? { source: { kind: made, seed: (source.seed ?? 0) + 1 }, rotation: randomRotation() } : null;
  change();
});
$("second-kind").addEventListener("change", () => chooseSecond({ kind: $("second-kind").value, seed: 1 }));
$("second-another").addEventListener("click", () =>
  chooseSecond({ kind: $("second-kind").value, seed: (second?.source.seed ?? 0) + 1 }));
$("second-random").addEventListener("click", () => {
  second.rotation = randomRotation();
  change();
});
for (const name of ["before", "after"]) {
  $(name).addEventListener("click", () => {
    isAfter = name === "after";
    for (const other of ["before", "after"]) $(other).setAttribute("aria-checked", other === name);
    if (last.header.alignment) showAlignment(last.header.alignment, isAfter);
    showShapes();
  });
}

const stem = () => (last.shape.name.replace(/\.[a-z]+$/i, "") || "shape");
$("save-png").addEventListener("click", async () => save(await stage.picture(), `${stem()}.png`));
$("save-json").addEventListener("click", () =>
  save(new Blob([`${JSON.stringify(last.state, null, 2)}\n`], { type: "application/json" }), `${stem()}.json`));
