"""A run's folder with results that were never measured: plausible random numbers in the files of `qec evaluate`."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from qecnet.algebra import from_rotvec, multiply, random_quaternion
from qecnet.datasets import make_furniture, symmetry_of
from qecnet.evaluation import PoseBaselinesResult
from qecnet.evaluation.corruption import CORRUPTIONS
from qecnet.evaluation.metrics import score_classification
from qecnet.evaluation.predict import Predictions, pack_predictions
from qecnet.evaluation.results import BaselineErrors
from qecnet.evaluation.rotation import canonical_errors, category_errors, siamese_errors
from qecnet.files import as_json

ALL = ("classification", "rotation", "robustness", "equivariance", "views")
SETTINGS: dict[str, Any] = {
    "dataset": "shapes",
    "per_class": 10,
    "config": "paper",
    "method": "centred",
    "points": 10_000,
    "frames": 512,
    "epochs": 12,
    "batch_size": 8,
    "learning_rate": 1e-3,
    "loss": "spread",
    "siamese": 0.0,
    "validation": 0.1,
    "seed": 0,
}
PARAMETERS = 46_990


def make_run(
    folder: Path, what=ALL, protocols=("paper", "strict"), *, dataset=None, views=3, accuracy=0.85, **changes
) -> Path:
    """Write a run of these settings with what has been evaluated under the protocols. → the folder"""
    settings = SETTINGS | changes
    dataset = dataset or make_furniture(settings["per_class"])
    (folder / "evaluation").mkdir(parents=True)
    (folder / "settings.json").write_bytes(as_json(settings))
    result = {"parameters": PARAMETERS, "shapes": 10 * settings["per_class"], "training_seconds": 5400, "processes": 1}
    result |= {name: settings[name] for name in ("dataset", "config", "seed")} | {"epoch": settings["epochs"]}
    result |= {"loss": 0.01, "train_accuracy": 0.95, "protocol": "paper", "validation_nr": 0.9, "validation_ar": 0.88}
    (folder / "result.json").write_bytes(as_json(result))
    write_log(folder / "log.jsonl", settings["epochs"], settings["siamese"])
    for protocol in protocols:
        rng = np.random.default_rng([len(protocol), settings["seed"]])
        quality = accuracy + (0.05 if protocol == "paper" else 0)
        for one in what:
            result, found = RESULTS[one](dataset, rng, protocol, views, quality)
            about = described(one, protocol, dataset, settings)
            (folder / "evaluation" / f"{one}-{protocol}.json").write_bytes(as_json(about | result))
            if found is not None:
                (folder / "evaluation" / f"{one}-{protocol}.npz").write_bytes(pack_predictions(found, "key"))
    return folder


def described(what, protocol, dataset, settings):
    return {
        "what": what,
        "protocol": protocol,
        "dataset": dataset.name,
        "split": "test",
        "classes": list(dataset.classes),
        "missing": [],
        "shapes": len(dataset.items("test")),
        "points": 8000,
        "model": {"parameters": PARAMETERS, "poses": settings["config"] != "pointnet"},
        "seed": 0,
    }


def write_log(path, epochs, siamese):
    rows = []
    for epoch in range(1, epochs + 1):
        done = 1 - np.exp(-4 * epoch / epochs)
        rows.append(
            {
                "epoch": epoch,
                "loss": 0.09 * (1 - 0.9 * done),
                "classification_loss": 0.08 * (1 - 0.9 * done),
                "pose_loss": siamese * (0.2 - 0.1 * done),
                "train_accuracy": 0.2 + 0.75 * done,
                "protocol": "paper",
                "learning_rate": 1e-3,
                "seconds": 60.0,
                "shapes_per_second": 30.0,
                "waiting": 0.01,
            }
            | ({"validation_nr": 0.2 + 0.7 * done, "validation_ar": 0.2 + 0.68 * done} if epoch % 2 == 0 else {})
        )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def predictions(dataset, rng, views, accuracy, upright=False) -> Predictions:
    """`views` turned views of each test shape, each with points of its own, and perhaps an upright one.

    Poses are those of an equivariant network with an orientation of its own for each class, off by a few degrees, by a
    symmetry of the class, and now and then by anything.
    """
    items = dataset.items("test")
    turns = np.arange(0 if upright else 1, views + 1)
    shape = np.repeat(np.arange(len(items)), len(turns))
    turn = np.tile(turns, len(items))
    label = np.array([item.label for item in items])[shape]
    count, classes = len(shape), len(dataset.classes)
    generator = torch.Generator().manual_seed(int(rng.integers(2**31)))
    rotation = random_quaternion(count, generator, dtype=torch.float64)
    rotation[torch.from_numpy(turn == 0)] = torch.tensor([1.0, 0, 0, 0], dtype=torch.float64)
    activations = rng.uniform(0.05, 0.4, (count, classes))
    named = np.where(rng.random(count) < accuracy, label, rng.integers(0, classes, count))
    activations[np.arange(count), named] = rng.uniform(0.5, 0.9, count)
    poses = np.stack([_poses(dataset, rng, generator, rotation, of) for of in (named, label)], 1)
    return Predictions(
        shape=shape,
        name=np.array([items[n].name for n in shape]),
        resampling=turn,
        turn=turn,
        points=np.full(count, 8000),
        rotation=rotation.numpy(),
        label=label,
        activations=activations.astype(np.float32),
        poses=poses.astype(np.float32),
        partiality=np.zeros(count, np.float32),
        classes=tuple(dataset.classes),
    )


def _poses(dataset, rng, generator, rotation, label):
    own = random_quaternion(len(dataset.classes), torch.Generator().manual_seed(1), dtype=torch.float64)
    count = len(label)
    orders = np.array([symmetry_of(name).order or 360 for name in dataset.classes])[label]
    angle = 2 * np.pi * rng.integers(0, orders) / orders
    symmetry = from_rotvec(torch.from_numpy(angle[:, None] * np.array([0, 0, 1.0])))
    noise = from_rotvec(torch.from_numpy(rng.normal(0, 0.12, (count, 3))))
    lost = torch.from_numpy(rng.random(count) < 0.07)
    noise[lost] = random_quaternion(int(lost.sum()), generator, dtype=torch.float64)
    return multiply(multiply(multiply(rotation, symmetry), noise), own[torch.from_numpy(label)]).numpy()


def _classification(dataset, rng, protocol, views, accuracy):
    found = predictions(dataset, rng, views, accuracy, upright=True)
    parts = {"nr": found.select(found.turn == 0), "ar": found.select(found.turn > 0)}
    figures = {n: asdict(score_classification(p.label, p.predicted, p.shape, p.classes, 0)) for n, p in parts.items()}
    return {"rotations": views, **figures}, found


def _rotation(dataset, rng, protocol, views, accuracy):
    found = predictions(dataset, rng, views, accuracy)
    own = random_quaternion(len(dataset.classes), torch.Generator().manual_seed(1), dtype=torch.float64).numpy()
    modes = {
        "canonical": asdict(canonical_errors(found, own)),
        "siamese": asdict(siamese_errors(found)),
        "category": asdict(category_errors(found)),
    }
    return {"rotations": views, "resamplings": 1, "modes": modes}, found


def _robustness(dataset, rng, protocol, views, accuracy):
    levels = []
    for number, level in enumerate(CORRUPTIONS):
        quality = accuracy - 0.03 * (number % 4)
        interval = [quality - 0.02, quality + 0.02]
        rae = {"rae": 0.1 + 0.2 * (1 - quality), "rae_all": 0.1 + 0.4 * (1 - quality), "rae_symmetric": 0.15}
        levels.append({"kind": level.kind, "level": level.level, "accuracy": quality, "interval": interval} | rae)
    return {"levels": levels}, None


def _equivariance(dataset, rng, protocol, views, accuracy):
    def change(scale):
        degrees = {"pose_degrees_max": min(180, 40 * scale), "pose_degrees_median": scale}
        return degrees | {"activation_max": scale / 10, "labels_changed": min(0.2, scale / 20)}

    shares = {"nr": accuracy, "exact_frames": accuracy, "reestimated": accuracy - 0.01, "resampled": accuracy - 0.04}
    changes = {"network": change(2e-5), "frames": change(0.4), "resampled": change(5.0)}
    return changes | {"rotations": views, "accuracy": shares}, None


def _views(dataset, rng, protocol, views, accuracy):
    shapes = len(dataset.items("test"))

    def scores(count, share):
        poses = {"up10": share - 0.1, "up_degrees": 2.5, "pose15": share - 0.2, "pose_degrees": 6.25}
        known = {"accuracy_known_up": share + 0.01, "pose15_known_up": share - 0.05}
        sets = {"ece": 0.02, "first_three": share, "set_holds_pose": 0.9, "set_size": 3.5}
        rest = {"views": count, "accuracy": share, "centre": 0.1, "size": 0.05, "confidence": 0.7}
        return rest | poses | known | sets

    groups = {"whole": scores(shapes, accuracy), "views": scores(shapes - 1, accuracy - 0.2)}
    kinds = {f"{name}_by_kind": dict.fromkeys(dataset.classes, scores(2, groups[name]["accuracy"])) for name in groups}
    return {"groups": groups, "no_answer": 1, **kinds}, None


RESULTS = {
    "classification": _classification,
    "rotation": _rotation,
    "robustness": _robustness,
    "equivariance": _equivariance,
    "views": _views,
}


def pose_baselines(dataset=None) -> PoseBaselinesResult:
    """What pose-baselines.json holds."""
    dataset = dataset or make_furniture(SETTINGS["per_class"])
    tables: dict[str, Any] = {}
    for name, quality in (("same_instance", 0.9), ("category_level", 0.5)):
        found = [predictions(dataset, np.random.default_rng(seed), 2, quality) for seed in range(3)]
        methods = ("Mean LRF", "PCA", "FPFH + RANSAC + ICP")
        tables[name] = {
            method: BaselineErrors(
                **vars(siamese_errors(one).all), seconds=0.01 * len(method), no_answer=len(method) % 3
            )
            for method, one in zip(methods, found, strict=True)
        }
    about: dict[str, Any] = {"dataset": "shapes", "split": "test", "classes": tuple(dataset.classes), "seed": 0}
    return PoseBaselinesResult(protocol="strict", **about, pairs_per_class=20, keep=0.8, **tables)
