"""Furniture from elsewhere: how many models of Sweet Home 3D's catalogues are named right, in random poses.

python -m benchmarks.elsewhere FOLDER [--poses 3], each with points of its own

FOLDER holds catalogues (*.sh3f) as Debian's package sweethome3d-furniture has them; nothing was trained on them. A
catalogue names each of its models, and that name's words decide which of the ten classes it should be. The rest is left
out: sets of several pieces, parts, and what is between two classes. Those of the rest that have a word of a class in
their name are printed, for others to judge. The table is results/elsewhere.csv.
"""

import argparse
import csv
import re
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from benchmarks.measure import RESULTS

import qecnet
from qecnet.algebra import random_quaternion, rotate
from qecnet.datasets import derive_seed
from qecnet.formats import read
from qecnet.geometry import Mesh

WORDS = {
    "bathtub": r"bath|bathtub",
    "bed": r"bed",
    "chair": r"chair|armchair",
    "desk": r"desk",
    "dresser": r"dresser|chest of drawers",
    "monitor": r"monitor|tv|television",
    "night_stand": r"night stand|nightstand|bedside table|night table",
    "sofa": r"sofa|couch|settee",
    "table": r"table",
    "toilet": r"toilet|toilets|toilet unit|toilets unit|wc",
}
"""A model is of a class if its name, without numbers and brackets, begins or ends with one of these words."""
OTHERS = (
    r"lamp|set|football|tennis|pool|changing|dressing|baby|deck|paper|brush|remote|door|fan|cabinet|stand|ottoman|intercom|"
    r"screen|bunk|mezzanine"
)
"""Words in names of what is none of the ten, or only nearly."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--poses", type=int, default=3)
    parser.add_argument("--model", default="modelnet10")
    given = parser.parse_args()
    model = qecnet.load(given.model)
    left_out(given.folder)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, expected, file) in enumerate(models(given.folder, Path(folder))):
            mesh = read(file)
            assert isinstance(mesh, Mesh)
            for pose in range(given.poses):
                turn = random_quaternion((), derive_seed(number, pose)).to(mesh.vertices)
                answer = model.predict(replace(mesh, vertices=rotate(turn, mesh.vertices)), seed=pose)
                rows.append([number, name, expected, pose, answer.label, f"{answer.confidence:.3f}"])
            print(name, expected, *(row[4] for row in rows[-given.poses :]), sep="  ", flush=True)
    write(rows)


def catalogued(folder: Path) -> Iterator[tuple[zipfile.ZipFile, str, str, str]]:
    """Each OBJ model: its catalogue, the catalogue's name, the model's name, and the file in there."""
    for catalogue in sorted(folder.glob("*.sh3f")):
        with zipfile.ZipFile(catalogue) as file:
            text = file.read("PluginFurnitureCatalog.properties").decode("latin-1")
            names, paths = (dict(re.findall(rf"^{key}#(\d+)=(.*)$", text, re.M)) for key in ("name", "model"))
            for number, name in names.items():
                path = paths[number].strip().lstrip("/")
                if path.lower().endswith(".obj"):
                    yield file, catalogue.stem, name.strip(), path


def models(folder: Path, into: Path) -> Iterator[tuple[str, str, Path]]:
    """Each model that is one of the ten, by its name in the catalogue: the name, the class, and its OBJ file."""
    for file, catalogue, name, path in catalogued(folder):
        if expected := class_of(name):
            yield f"{catalogue}: {name}", expected, Path(file.extract(path, into))


def left_out(folder: Path) -> None:
    words = "|".join(WORDS.values())
    names = [name for *_, name, _ in catalogued(folder)]
    left = [name for name in names if not class_of(name) and re.search(rf"\b({words})\b", name.lower())]
    print(f"{len(names)} models; left out, though a class is in the name: {len(left)} ({', '.join(left)})", flush=True)


def class_of(name: str) -> str | None:
    plain = re.sub(r"\(.*?\)|\d+|#", " ", name.lower()).strip()
    found = [kind for kind, words in WORDS.items() if re.search(rf"(^({words})\b)|(\b({words})$)", plain)]
    if "night_stand" in found:
        return "night_stand"
    return found[0] if len(found) == 1 and not re.search(rf"\b({OTHERS})\b", plain) else None


def write(rows: list[list[object]]) -> None:
    with (RESULTS / "elsewhere.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["number", "model", "class", "pose", "named", "confidence"])
        writer.writerows(rows)
    for kind in WORDS:
        of_it = [row for row in rows if row[2] == kind]
        right = sum(row[4] == kind for row in of_it)
        print(f"{kind:12} {right:4} of {len(of_it)}")
    print(f"{'all':12} {sum(row[2] == row[4] for row in rows):4} of {len(rows)}")


if __name__ == "__main__":
    main()
