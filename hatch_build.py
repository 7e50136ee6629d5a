"""Compiles the operators of `qecnet.compiled` when the package is built or installed, where there is a C++ compiler.

Without one, the package is built without them, and PyTorch and NumPy do the same work more slowly.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FLAGS = ("-std=c++17", "-O3", "-fPIC", "-shared", "-fno-math-errno", "-fno-trapping-math", "-Wno-psabi")
# Processors with AVX-512, with AVX2, and all others; `qecnet.compiled` takes the first that it can run.
LEVELS = ("x86-64-v4", "x86-64-v3", "")


class CompileOperators(BuildHookInterface[Any]):
    """Adds the shared libraries to the wheel, and names the platform that they are for."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        folder = Path(self.root, "src", "qecnet", "compiled")
        built = compile_operators(folder, self.app.display_warning)
        if built:
            build_data["artifacts"] += [f"/{path.relative_to(self.root).as_posix()}" for path in built]
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"


def compile_operators(folder: Path, warn: Any) -> list[Path]:
    """Compile the C++ in a folder for each level of processors; those of older sources are removed.

    Returns:
        The libraries; none where there is no compiler, or where it fails.
    """
    sources = sorted([*folder.glob("*.cpp"), *folder.glob("*.h")])
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    system = sysconfig.get_platform()
    for old in folder.glob(f"operators-*-{system}-*"):
        if digest not in old.name:
            old.unlink(missing_ok=True)
    compiler = next(filter(None, map(shutil.which, (os.environ.get("CXX", ""), "c++", "g++", "clang++"))), None)
    if compiler is None:
        warn("no C++ compiler was found: qecnet is installed without compiled operators, and slower")
        return []
    levels = LEVELS if platform.machine().lower() in ("x86_64", "amd64") else LEVELS[-1:]
    built, failure = [], ""
    for level in levels:
        path = folder / f"operators-{digest}-{system}-{level or 'any'}.so"
        if not path.exists():
            failure = _compile(compiler, level, [s for s in sources if s.suffix == ".cpp"], path) or failure
        if path.exists():
            built.append(path)
    if not built:
        warn(f"{compiler} failed ({failure}): qecnet is installed without compiled operators, and slower")
    return built


def _compile(compiler: str, level: str, sources: list[Path], to: Path) -> str:
    """Compile with threads, if the compiler knows how; the library appears whole or not at all.

    Returns:
        Why it failed; nothing if it did not.
    """
    made = to.with_suffix(f".{os.getpid()}.part")
    processor = [f"-march={level}"] if level else []
    for threads in (["-fopenmp"], []):
        command = [compiler, *FLAGS, *processor, *threads, *map(str, sources), "-o", str(made)]
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode == 0:
            made.replace(to)
            return ""
    made.unlink(missing_ok=True)
    return (result.stderr.strip().splitlines() or [f"exit code {result.returncode}"])[0]
