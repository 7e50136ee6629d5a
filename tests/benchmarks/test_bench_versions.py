"""Each version of the package is imported from its own checkout, and its fastest time counts."""

from pathlib import Path

import pytest
from benchmarks.bench_versions import HERE, compare, measurements, run, seconds_of


def test_the_package_is_that_of_the_checkout(tmp_path):
    package = tmp_path / "src" / "qecnet"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    for checkout in (HERE, tmp_path):
        printed = run(checkout, "-c", "import qecnet; print(qecnet.__file__)")
        assert Path(printed.strip()) == checkout / "src" / "qecnet" / "__init__.py"


def test_a_version_that_fails_ends_the_benchmark_with_its_error(tmp_path):
    with pytest.raises(SystemExit, match=r"(?s)No such file"):
        run(tmp_path, "absent.py")


def test_the_fastest_time_of_each_version_counts(tmp_path):
    times = {tmp_path: iter([4.0, 3.0]), HERE: iter([2.0, 6.0])}
    (row,) = compare(tmp_path, {("a command", "s"): lambda checkout: next(times[checkout])}, rounds=2)
    assert (row["of it"], row["ours"], row["times"]) == (3.0, 2.0, 1.5)


def test_the_command_runs_from_a_file(tmp_path):
    measured = measurements(tmp_path, tmp_path / "weights.safetensors")
    assert len(measured) == 4
    assert "qec" in run(HERE, tmp_path / "qec.py", "--version")
    assert seconds_of(HERE, tmp_path / "qec.py", "--help") > 0
