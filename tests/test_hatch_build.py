"""Operators are compiled at installation; without a compiler, the package is installed without them."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hatch_build import compile_operators

import qecnet.compiled
from qecnet.compiled import is_compiled

FOLDER = Path(qecnet.compiled.__file__).parent


@pytest.fixture
def folder(tmp_path):
    """The sources, without what was compiled from them; one small file is enough to compile."""
    shutil.copy(FOLDER / "snapping.cpp", tmp_path)
    return tmp_path


def test_this_installation_has_the_operators_of_its_sources():
    assert is_compiled()


def test_library_that_cannot_be_loaded_gives_a_warning(tmp_path):
    package = tmp_path / "qecnet"
    shutil.copytree(FOLDER.parent / "compiled", package / "compiled")
    (package / "__init__.py").touch()
    for path in (package / "compiled").glob("operators-*"):
        path.write_text("no library")
    code = "from qecnet.compiled import is_compiled; print(is_compiled())"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
    assert "compiled operators cannot be loaded, and everything is slower" in done.stderr


def test_compiled_library_is_kept_until_the_sources_change(folder):
    warnings: list[str] = []
    built = compile_operators(folder, warnings.append)
    assert built
    assert not warnings
    stamps = [path.stat().st_mtime_ns for path in built]
    assert compile_operators(folder, warnings.append) == built
    assert [path.stat().st_mtime_ns for path in built] == stamps
    (folder / "snapping.cpp").write_text((folder / "snapping.cpp").read_text() + "// changed\n")
    again = compile_operators(folder, warnings.append)
    assert sorted(folder.glob("operators-*")) == sorted(again)
    assert not set(again) & set(built)


def test_missing_compiler_gives_a_warning(folder, monkeypatch):
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("CXX", raising=False)
    warnings: list[str] = []
    assert compile_operators(folder, warnings.append) == []
    assert warnings == ["no C++ compiler was found: qecnet is installed without compiled operators, and slower"]


def test_a_compiler_that_fails_is_named_and_leaves_nothing(folder):
    (folder / "snapping.cpp").write_text("this is not C++\n")
    warnings: list[str] = []
    assert compile_operators(folder, warnings.append) == []
    assert len(warnings) == 1
    assert "failed (" in warnings[0]
    assert "snapping.cpp" in warnings[0]
    assert list(folder.iterdir()) == [folder / "snapping.cpp"]
