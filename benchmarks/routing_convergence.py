"""How fast routing converges: its cost after each iteration, on random votes and on votes that half agree.

python -m benchmarks.routing_convergence      # writes results/routing_convergence.csv and .png
"""

import csv

import matplotlib.pyplot as plt
import torch
from benchmarks.measure import RESULTS
from torch import Tensor

from qecnet.algebra import angular_distance, from_rotvec, multiply, random_quaternion
from qecnet.nn import route

SETS, VOTES, LAST, SEED = 200, 64, 60, 0


def random_votes(generator: torch.Generator) -> Tensor:
    return random_quaternion((SETS, 1, VOTES), generator, dtype=torch.float64)


def half_agreeing_votes(generator: torch.Generator) -> Tensor:
    votes = random_votes(generator)
    centre = random_quaternion((SETS, 1, 1), generator, dtype=torch.float64)
    noise = 0.2 * torch.randn(SETS, 1, VOTES // 2, 3, generator=generator, dtype=torch.float64)
    votes[:, :, : VOTES // 2] = multiply(centre, from_rotvec(noise))
    return votes


def main() -> None:
    generator = torch.Generator().manual_seed(SEED)
    activations = torch.ones(SETS, VOTES, dtype=torch.float64)
    figure, panels = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    rows = []
    for what, make in (("random votes", random_votes), ("half of the votes agree", half_agreeing_votes)):
        votes = make(generator)
        for exponent in (1.0, 1.5):
            poses = [route(votes, activations, n, "lq", exponent=exponent).poses for n in (*range(13), LAST)]
            distance = [torch.sin(angular_distance(p[..., None, :], votes) / 2) for p in poses]
            costs = torch.stack([(d**exponent).sum(-1) for d in distance])[..., 0]
            angles = torch.rad2deg(torch.stack([angular_distance(p, poses[-1]) for p in poses]))[..., 0]
            above = (costs[:-1] / costs[-1] - 1).mean(-1)
            label = f"{what}, q = {exponent}"
            panels[0].semilogy(100 * above.clamp_min(1e-9), "o-", label=label)
            panels[1].semilogy(angles[:-1].median(-1).values.clamp_min(1e-9), "o-", label=label)
            rows += [
                {
                    "votes": what,
                    "exponent": exponent,
                    "iteration": n,
                    "mean cost above the converged one %": f"{100 * float(above[n]):.4g}",
                    "median angle to the converged pose in degrees": f"{float(angles[n].median()):.4g}",
                    "largest rise of a cost in this iteration": f"{float((costs[n] - costs[max(n - 1, 0)]).max()):.2g}",
                }
                for n in range(13)
            ]
    panels[0].set(xlabel="iteration", ylabel="%", title="Cost above the converged one, mean")
    panels[1].set(xlabel="iteration", ylabel="degrees", title="Angle to the converged pose, median")
    for panel in panels:
        panel.axvline(3, color="grey", linewidth=1, linestyle=":")
        panel.grid(alpha=0.3)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=8)
    figure.suptitle(f"Weiszfeld routing, {SETS} sets of {VOTES} votes (seed {SEED}); the paper takes 3 iterations")
    figure.savefig(RESULTS / "routing_convergence.png", dpi=130)
    with (RESULTS / "routing_convergence.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
