"""Mutates files of every format, weights, indexes, checkpoints and settings: each is read, or refused in one sentence.

    make fuzz COUNT=100000 SEED=0
    python -m benchmarks.fuzz --seed 0 --only 4711   # one input again

Inputs are read in a process of their own. Another exception, output on stderr, more than 5 s of processor time, more
than 200 MB above the sound files, or a crash is a finding: its input is kept in build/fuzz, and it is listed in
results/fuzz.json.
"""

from __future__ import annotations

import argparse
import base64
import io
import json
import multiprocessing
import os
import resource
import shutil
import signal
import struct
import sys
import tempfile
import warnings
from collections import Counter
from copy import deepcopy
from dataclasses import asdict
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any, NamedTuple

import numpy as np
import torch

import qecnet
from qecnet.datasets import make_shape
from qecnet.files import as_json, write_whole
from qecnet.formats import ReadError, read, read_cloud, write
from qecnet.models import Answer, Stamp, edit_library, read_library
from qecnet.models.library import graph
from qecnet.nn import FeatureConfig, FeatureNet, Neighbourhood, QECConfig, QECNet, save_network
from qecnet.outcome import Epoch
from qecnet.training import make_settings
from qecnet.training.checkpoint import State, load_checkpoint, save_checkpoint
from qecnet.training.settings import read_settings
from qecnet.training.step import new_state

ROOT = Path(__file__).parents[1]
SECONDS, STALLED = 5, 120
MEGABYTES = 200
_ADDRESS_SPACE = 2 << 30  # that a file may take, beyond what the process it is forked from has
_INDEX = ("rows.sqlite", "vectors-1.usearch")
_OURS = ("weights", "checkpoint", "settings", *_INDEX)
_IN_GRAPH = 40
_PIECES = (
    *(b"\n", b"\r", b" ", b"#", b"-", b".", b"-1", b"0", b"1e308", b"nan", b"inf", b"9" * 20, b"5000000000", b"["),
    *(b"list", b"double", b"vertex", b"face", b"uchar", b"F", b"x", b"{", b'"', b"<"),
    *(b"\xff" * 4, b"\0" * 8, b"\xff\xff\xff\x7f", b"\x80"),
)
_VALUES: tuple[Any, ...] = (
    *(None, True, 0, 1, -1, 2, 1.5, -0.5, 1e-300, 1e300, float("nan"), float("inf"), 2**31, 2**63, 10**400),
    *("", "x", "\x1b[2J", "../a", "paper", "features", "flare", [], [[]], {}, [1, 2], {"a": 1}, "y" * 5000),
)


class Sound(NamedTuple):
    """A file that is read, to be mutated."""

    kind: str
    suffix: str
    data: bytes


def sound_files(folder: Path) -> list[Sound]:
    """Small sound files of every format and variant that is read."""
    mesh = make_shape("chair", 0)
    cloud = mesh.sample(40, torch.Generator().manual_seed(0))
    for suffix in (".ply", ".off", ".obj", ".stl", ".glb", ".3mf"):
        write(folder / f"mesh{suffix}", mesh)
    for suffix in (".ply", ".pcd", ".xyz", ".csv", ".npy", ".npz", ".las", ".laz"):
        write(folder / f"cloud{suffix}", cloud)
    files = [Sound(path.suffix[1:], path.suffix, path.read_bytes()) for path in sorted(folder.iterdir())]
    points, packed = cloud.points.numpy(), io.BytesIO()
    np.savez_compressed(packed, points=points)
    files.append(Sound("npz", ".npz", packed.getvalue()))
    files += [Sound(suffix[1:], suffix, data) for suffix, data in _written_by_hand(points)]
    return files


def _written_by_hand(points: np.ndarray) -> list[tuple[str, bytes]]:
    """Variants that `write` does not write."""
    import lzf
    import trimesh

    dae = trimesh.Trimesh(points[:6], np.arange(6).reshape(2, 3), process=False).export(file_type="dae")
    raw = points.astype("<f4").repeat(8, 0).T.tobytes()
    packed = lzf.compress(raw, 2 * len(raw))
    pcd = f"FIELDS x y z\nSIZE 4 4 4\nTYPE F F F\nWIDTH {8 * len(points)}\nPOINTS {8 * len(points)}\n".encode()
    files = trimesh.Scene([trimesh.creation.box()]).export(file_type="gltf")
    gltf = json.loads(files["model.gltf"])
    for buffer in gltf["buffers"]:
        buffer["uri"] = "data:application/octet-stream;base64," + base64.b64encode(files[buffer["uri"]]).decode()
    stl = np.zeros(2, "3f4,(3,3)f4,u2")
    stl["f1"] = points[:6].reshape(2, 3, 3)
    ply = b"element vertex 3\nproperty float x\nproperty float y\nproperty float z\nelement face 2\n"
    return [
        (".pcd", pcd + b"DATA binary_compressed\n" + struct.pack("<II", len(packed), len(raw)) + packed),
        (".pcd", b"VERSION .7\nFIELDS x y z\nSIZE 4 4 4\nTYPE F F F\nCOUNT 1 1 1\nWIDTH 2\nHEIGHT 1\nPOINTS 2\n"
                 b"DATA ascii\n0 0 0\n1 2 nan\n"),
        (".gltf", json.dumps(gltf).encode()),
        (".dae", dae),
        (".stl", b"\0" * 80 + struct.pack("<I", 2) + stl.tobytes()),
        (".stl", b"solid a\nfacet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 0 0\nvertex 0 1 0\nendloop\n"
                 b"endfacet\nendsolid\n"),
        (".obj", b"o a\nv 0 0 0\nv 1 0 0\nv 0 1 0\nvn 0 0 1\nf 1//1 2//1 3//1\nf -1 -2 -3\n"),
        (".off", b"COFF\n3 1 0\n0 0 0 1 0 0 1\n1 0 0 1 0 0 1\n0 1 0 1 0 0 1\n3 0 1 2 9 9 9\n"),
        (".ply", b"ply\nformat ascii 1.0\n" + ply + b"property list uchar int vertex_index\nend_header\n"
                 b"0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n2 0 1\n"),
        (".ply", b"ply\nformat binary_big_endian 1.0\n" + ply + b"property list uchar short vertex_index\nend_header\n"
                 + np.eye(3, dtype=">f4").tobytes() + 2 * b"\3\0\0\0\1\0\2"),
    ]  # fmt: skip


def sound_models(folder: Path) -> list[Sound]:
    """Weights of both networks, and both files of an index."""
    torch.manual_seed(0)
    small = Neighbourhood(8, 4, 4, 4, 0.5)
    networks = {
        "paper": QECNet(QECConfig(3, frames=64, patches=8, neighbours=4, capsules=4)),
        "features": FeatureNet(FeatureConfig(3, frames=64, neighbourhoods=(small,), whole=(8, 8), summary=8)),
    }
    about = {"settings": {"points": 400, "frames": 64, "method": "centred"}, "temperature": 0.5}
    for name, network in networks.items():
        save_network(folder / f"{name}.safetensors", network, ["bed", "chair", "desk"], about)
        write(folder / f"{name}.off", make_shape("bed", 0))
    files = [Sound("weights", ".safetensors", (folder / f"{name}.safetensors").read_bytes()) for name in networks]
    return files + [Sound(path.name, path.name, path.read_bytes()) for path in _sound_index(folder)]


def _sound_index(folder: Path) -> list[Path]:
    """A small index with shapes in its graph, and one that is not in it."""
    model = qecnet.load(folder / "paper.safetensors")
    graph.EXACT_ROWS = _IN_GRAPH
    answers = model.predict([make_shape("bed", seed) for seed in range(_IN_GRAPH + 1)])
    entries = [(f"{number}.off", Stamp(0, 0), answer) for number, answer in enumerate(answers)]
    with edit_library(folder / "index", model) as library:
        library.add(entries[:_IN_GRAPH])
        library.add(entries[_IN_GRAPH:])
    return sorted((folder / "index").iterdir())


_SMALL = {"frames": 64, "points": 400, "patches": 8, "neighbours": 4, "capsules": 4}
_CLASSES, _ORIGIN = ("bed", "chair"), {"frames": "0" * 16}


def _fresh_state() -> State:
    return new_state(make_settings(_SMALL), _CLASSES, torch.device("cpu"))


def sound_runs(folder: Path) -> list[Sound]:
    """A checkpoint, and settings in both of their formats."""
    state = _fresh_state()
    sum(parameter.sum() for parameter in state.network.parameters()).backward()  # type: ignore[union-attr]
    for optimizer in state.optimizers.values():
        optimizer.step()
    losses = {"loss": 0.5, "classification_loss": 0.4, "pose_loss": 0.1, "train_accuracy": 0.5, "learning_rate": 1e-3}
    times = {"seconds": 2.0, "shapes_per_second": 8.0, "waiting": 0.1}
    state.rows, state.totals = [Epoch(epoch=1, protocol="paper", **losses, **times)], {"loss": 1.5}
    save_checkpoint(folder / "checkpoint.safetensors", state, _ORIGIN)
    settings = asdict(make_settings(_SMALL))
    lines = "".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items())
    return [
        Sound("checkpoint", ".safetensors", (folder / "checkpoint.safetensors").read_bytes()),
        Sound("settings", ".json", as_json(settings)),
        Sound("settings", ".toml", lines.encode()),
    ]


def mutate(sound: Sound, random: Random) -> Sound:
    """The file with a few changes, or noise; of safetensors and settings, half of the changes are of values."""
    data = sound.data
    if random.random() < 0.02:
        return sound._replace(data=random.randbytes(random.randint(1, 300)))
    if sound.suffix == ".json" and random.random() < 0.5:
        settings = json.loads(data)
        _mutate_json(settings, random)
        return sound._replace(data=json.dumps(settings).encode())
    if sound.suffix == ".safetensors" and random.random() < 0.5:
        return sound._replace(data=_mutate_metadata(data, random))
    for _ in range(random.randint(1, 4)):
        # Headers are a small part of a file and decide most about it.
        start = random.randint(0, min(len(data), 400) if random.random() < 0.5 else len(data))
        end = min(len(data), start + random.randint(0, 16))
        piece = random.choice(_PIECES) if random.random() < 0.7 else random.randbytes(random.randint(1, 8))
        kind = random.choice(("replace", "insert", "repeat", "truncate", "flip"))
        if kind == "replace":
            data = data[:start] + piece + data[end:]
        elif kind == "insert":
            data = data[:start] + piece + data[start:]
        elif kind == "repeat":
            data = data[:end] + data[start:]
        elif kind == "flip" and start < len(data):
            data = data[:start] + bytes([data[start] ^ 1 << random.randrange(8)]) + data[start + 1 :]
        elif kind == "truncate" and random.random() < 0.3:
            data = data[:start]
    if sound.kind == "settings":
        return sound._replace(data=data)
    suffix = (
        sound.suffix if random.random() < 0.9 else random.choice((".off", ".obj", ".ply", ".csv", ".npz", ".dat", ""))
    )
    return sound._replace(data=data, suffix=suffix)


def _mutate_metadata(data: bytes, random: Random) -> bytes:
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    about = json.loads(header["__metadata__"]["qecnet"])
    within = header if random.random() < 0.2 else about
    for _ in range(random.randint(1, 2)):
        _mutate_json(within, random)
    if isinstance(header.get("__metadata__"), dict) and within is about:
        header["__metadata__"]["qecnet"] = json.dumps(about)
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data[end:]


def _mutate_json(value: Any, random: Random) -> None:
    """Replace, remove or add something somewhere in it."""
    while isinstance(value, dict | list) and value:
        key = random.choice([*value]) if isinstance(value, dict) else random.randrange(len(value))
        if isinstance(value[key], dict | list) and value[key] and random.random() < 0.8:
            value = value[key]
        elif random.random() < 0.15:
            del value[key]
            return
        elif isinstance(value, list) and random.random() < 0.3:
            value.append(deepcopy(value[key]))
            return
        else:
            value[key] = deepcopy(random.choice(_VALUES))  # later mutations change it in place
            return


@cache
def _query(models: Path) -> tuple[qecnet.Model, Answer]:
    model = qecnet.load(models / "paper.safetensors")
    return model, model.predict(models / "paper.off")


def _address_space() -> int:
    """Bytes of this process, or a usual number where the system does not tell."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[0]) * resource.getpagesize() if statm.exists() else 1 << 30


def check(sound: Sound, path: Path, models: Path) -> str:
    """Read one file: "accepted", "refused", or what is wrong."""
    if sound.kind in _INDEX:
        path = Path(shutil.copytree(models / "index", models / "mutated", dirs_exist_ok=True)) / sound.kind
    path.write_bytes(sound.data)
    try:
        if sound.kind == "weights":
            answer = qecnet.load(path).predict(models / "paper.off")
            good = bool(answer.poses.isfinite().all()) and answer.confidence <= 1.0001 and answer.label.isprintable()
        elif sound.kind in _INDEX:
            model, query = _query(models)
            with read_library(path.parent) as library:
                label = library.classes[0]
                good = not library.fits(model) or all(
                    one.similarity <= 1 and one.label in model.classes
                    for one in (*library.nearest(query), *library.nearest(query, label=label))
                )
        elif sound.kind == "checkpoint":
            state = _fresh_state()
            load_checkpoint(path, state, _ORIGIN)
            good = min(state.epoch, state.step) >= 0
        elif sound.kind == "settings":
            good = make_settings(read_settings(path)).epochs > 0
        else:
            read(path)
            good = bool(read_cloud(path, 10).points.isfinite().all())
    except (ValueError, OSError) as error:
        said = str(error)
        if sound.kind not in _OURS and not isinstance(error, ReadError):
            return f"{type(error).__name__}: {said[:200]}"
        start = f"{path.parent}/" if sound.kind in _INDEX else f"{path}: "
        named = sound.kind in ("weights", "settings") or said.startswith(start)
        sentence = said.isprintable() and len(said) < 1000 and named
        return "refused" if sentence else f"not one sentence that names the file: {said[:200]!r}"
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    return "accepted" if good else "an answer that makes no sense"


def work(connection: Connection, folder: Path, seed: int, files: list[Sound]) -> None:
    """Check the inputs whose numbers arrive."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    limit = _address_space() + _ADDRESS_SPACE
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for sound in files:
        outcome = check(sound, folder / f"sound{sound.suffix}", folder)
        if outcome != "accepted":
            raise ValueError(f"{sound.kind}: a sound file is {outcome}")
    sound_peak = _peak()
    connection.send(sound_peak)
    with tempfile.TemporaryFile() as printed:
        os.dup2(printed.fileno(), 2)  # of libraries that are not written in Python, too
        while True:
            changed = make_input(files, seed, connection.recv())
            signal.setitimer(signal.ITIMER_PROF, SECONDS)  # ends the process, whatever it is doing
            outcome = check(changed, folder / f"input{changed.suffix}", folder)
            signal.setitimer(signal.ITIMER_PROF, 0)
            if printed.seek(0, os.SEEK_END):
                outcome = f"prints to stderr as well: {outcome}"
                printed.truncate(0)
            if (grown := _peak() - sound_peak) > MEGABYTES:
                outcome = f"takes {grown:.0f} MB more than the sound files"
            connection.send((outcome, _peak()))


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 if sys.platform != "darwin" else 1024) / 1024


def make_input(files: list[Sound], seed: int, number: int) -> Sound:
    """The input of a number: the kinds take turns."""
    kinds = sorted({sound.kind for sound in files})
    random = Random(f"{seed}/{number}")
    return mutate(random.choice([sound for sound in files if sound.kind == kinds[number % len(kinds)]]), random)


def run(numbers: range, seed: int, seconds: float, folder: Path) -> dict[str, Any]:
    """Check inputs, in a process that is started again after each finding."""
    for name in ("shapes", "models"):
        (folder / name).mkdir()
    files = sound_files(folder / "shapes") + sound_models(folder / "models") + sound_runs(folder / "models")
    counts: dict[str, Counter[str]] = {}
    findings, grown, start, process = [], 0.0, monotonic(), None
    context = multiprocessing.get_context("fork")
    for number in numbers:
        if monotonic() - start > seconds:
            break
        if process is None:
            ours, theirs = context.Pipe()
            process = context.Process(target=work, args=(theirs, folder / "models", seed, files), daemon=True)
            process.start()
            theirs.close()
            sound_peak = ours.recv()
        changed, ends = make_input(files, seed, number), False
        ours.send(number)
        try:
            if ours.poll(STALLED):
                outcome, peak = ours.recv()
                grown = max(grown, peak - sound_peak)
            else:
                outcome, ends = f"does not end within {STALLED} s", True
        except EOFError:
            process.join()
            hung = process.exitcode == -signal.SIGPROF
            outcome = f"takes more than {SECONDS} s" if hung else f"ends the process ({process.exitcode})"
            ends = True
        found = outcome not in ("accepted", "refused")
        counts.setdefault(changed.kind, Counter())["finding" if found else outcome] += 1
        if found:
            findings.append({"number": number, "kind": changed.kind, "problem": outcome})
            kept = ROOT / "build" / "fuzz" / f"{seed}-{number}{changed.suffix}"
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_bytes(changed.data)
            print(f"{number} ({changed.kind}): {outcome}", flush=True)
        if ends or "MB more" in outcome:
            process.kill()
            process = None
    if process is not None:
        process.kill()
    kinds = {
        kind: {
            "mutations": sum(counts[kind].values()),
            **{n: counts[kind][n] for n in ("accepted", "refused", "finding")},
        }
        for kind in sorted(counts)
    }
    return {
        "what": "fuzz",
        "seed": seed,
        "mutations": sum(kind["mutations"] for kind in kinds.values()),
        "seconds": round(monotonic() - start),
        "limits": {"seconds": SECONDS, "megabytes": MEGABYTES},
        "most_megabytes": round(grown),
        "kinds": kinds,
        "findings": findings,
    }


def main() -> None:
    """Parse the command line, and write results/fuzz.json unless one input is checked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000, help="Number of mutations.")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="Stop after this time.")
    parser.add_argument("--seed", type=int, default=0, help="Seed of the mutations.")
    parser.add_argument("--only", type=int, help="Check the input of this number alone.")
    given = parser.parse_args()
    numbers = range(given.count) if given.only is None else range(given.only, given.only + 1)
    with tempfile.TemporaryDirectory() as folder:
        result = run(numbers, given.seed, given.seconds, Path(folder))
    print(json.dumps(result, indent=2))
    if given.only is None:
        write_whole(ROOT / "results" / "fuzz.json", as_json(result))
    sys.exit(bool(result["findings"]))


if __name__ == "__main__":
    main()
