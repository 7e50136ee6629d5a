"""Snapping and candidate poses of 1,024 points with normals: processor time of one thread, against plain versions.

python -m benchmarks.bench_candidates

The shapes are procedural, so that anyone can repeat it. Times are the fastest of a second; the plain versions are those
of the tests.
"""

import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from benchmarks.bench_frames import furniture
from benchmarks.measure import milliseconds, report, row
from tests.geometry.plain_candidates import resting_plain, snap_plain
from torch import Tensor

from qecnet.algebra import random_quaternion
from qecnet.geometry import farthest_points, find_axis_ups, find_resting_ups, fit_normals, propose_poses, snap_pose


def main() -> None:
    torch.set_num_threads(1)
    shapes = []
    for seed in range(5):
        cloud = furniture(seed)
        at = farthest_points(cloud, 1024)
        shapes.append((cloud[at], fit_normals(cloud, at, radius=0.1)[0]))

    def median(function: Callable[[Tensor, Tensor], object]) -> float:
        return float(np.median([milliseconds(partial(function, *s), clock=time.thread_time) for s in shapes]))

    pose, poses = random_quaternion((), 0), random_quaternion(24, 0)
    plain_hull = median(lambda positions, _: resting_plain(positions.double().numpy()))
    plain_snap = median(lambda _, normals: snap_plain(pose, normals, torch.ones(1024), steps=20))
    plain_many = median(lambda _, normals: [snap_plain(p, normals, torch.ones(1024), steps=20) for p in poses])
    report(
        "candidates",
        [
            row("hull and candidate poses", median(propose_poses), aim="≤ 15"),
            row("resting faces", median(lambda p, _: find_resting_ups(p)), "ms", "plain loops", plain_hull),
            row("axes from four starts", median(find_axis_ups)),
            row("one pose snapped", median(lambda _, n: snap_pose(pose, n)), "ms", "20 decompositions", plain_snap),
            row("24 poses snapped", median(lambda _, n: snap_pose(poses, n)), "ms", "pose by pose", plain_many),
        ],
    )


if __name__ == "__main__":
    main()
