"""Connect to a Ray cluster, or explain in one sentence why that fails: Ray itself would wait, or print a traceback."""

import os
import socket
import subprocess
import sys
from typing import Any

from qecnet.schema import first_line, needing_extra, system_reason
from qecnet.streams import discard_stderr

_ANSWER_SECONDS = 5.0
"""How long an address may take to answer."""
_CONNECT_SECONDS = 60.0
"""How long a cluster may take to say that it is one: what listens at the address may be something else."""
_STORE_BYTES = 200_000_000
"""Of Ray's object store on one machine, which holds little more than the model."""


def check_address(address: str) -> None:
    """Check that Ray is installed and that a cluster answers within a few seconds.

    Args:
        address: as given to `--ray`.

    Raises:
        ValueError: if not; one sentence.
    """
    with needing_extra("--ray needs ray", "ray"):
        import ray  # noqa: F401
    if address in ("local", "auto"):
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise ValueError(f"{address}: is not the address of a Ray cluster; give HOST:PORT, auto or local")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _ANSWER_SECONDS).close()
    except (OSError, OverflowError) as error:
        reason = system_reason(error)
        raise ValueError(
            f"{address}: no Ray cluster answers ({reason}); start one with ray start --head, or give --ray local"
        ) from None


def _check_cluster(address: str) -> None:
    """Raise a ValueError unless a Ray cluster answers: Ray itself would wait forever."""
    command = [sys.executable, "-m", "ray.scripts.scripts", "status"]
    remedy = "start one with ray start --head, or give --ray local"
    try:
        subprocess.run(
            command if address == "auto" else [*command, "--address", address],
            capture_output=True,
            text=True,
            check=True,
            timeout=_CONNECT_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise ValueError(
            f"{address}: no Ray cluster answers within {_CONNECT_SECONDS:.0f} seconds; {remedy}"
        ) from error
    except subprocess.CalledProcessError as error:
        reason = last_line(RuntimeError(error.stderr or "ray status failed"))
        raise ValueError(f"{address}: no Ray cluster answers ({reason}); {remedy}") from error


def connect(address: str, workers: int | None) -> Any:
    """Ray, connected to a cluster, or to one that is started here; see `share_on_ray` for arguments and errors."""
    check_address(address)
    if address != "local":
        _check_cluster(address)
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # or Ray warns of what will change
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # or it prints that its metrics are late
    import ray

    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if address == "local":
        cores = workers or os.cpu_count()
        options |= {"num_cpus": cores, "include_dashboard": False, "object_store_memory": _STORE_BYTES}
    try:
        with discard_stderr():  # Ray reports its own log settings there
            ray.init(address, **options)
    except (Exception, SystemExit) as error:  # Ray exits the program when its own process does not answer
        raise ValueError(
            f"{address}: cannot connect to this Ray cluster ({first_line(Exception(str(error)))}); make this machine "
            "one of its nodes with ray start --address, or give --ray local"
        ) from error
    return ray


def last_line(error: Exception) -> str:
    """The reason at the end of a traceback: its first sentence, without Ray's advice."""
    lines = str(error).strip().splitlines() or ["no reason given"]
    return first_line(Exception(lines[-1].partition(". ")[0]))
