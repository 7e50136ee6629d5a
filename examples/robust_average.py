"""Average rotations of which more and more are nonsense, and see that turning the input turns the answer."""

import torch
from rich.console import Console
from rich.table import Table

from qecnet.algebra import angular_distance, from_rotvec, lq_median, multiply, random_quaternion, weighted_mean

COUNT, SPREAD, SEED = 60, 0.08, 0
METHODS = {"mean": weighted_mean, "L1 median": lq_median}


def main() -> None:
    generator = torch.Generator().manual_seed(SEED)
    truth, turn = random_quaternion(2, generator, dtype=torch.float64)
    noise = SPREAD * torch.randn(COUNT, 3, generator=generator, dtype=torch.float64)
    good = multiply(truth, from_rotvec(noise))
    nonsense = random_quaternion(COUNT, generator, dtype=torch.float64)

    table = Table(title=f"{COUNT} noisy measurements of one rotation, some replaced by random ones (seed {SEED})")
    for heading in ("average", "replaced", "error", "error, input turned", "answer turned, to within"):
        table.add_column(heading, justify="left" if heading == "average" else "right")
    for name, average in METHODS.items():
        for share in (0.0, 0.2, 0.4, 0.6):
            bad = int(share * COUNT)
            measured = torch.cat((nonsense[:bad], good[bad:]))
            before, after = average(measured), average(multiply(turn, measured))
            errors = (
                angular_distance(before, truth),
                angular_distance(after, multiply(turn, truth)),
                angular_distance(after, multiply(turn, before)),
            )
            off, off_turned, equivariance = (float(torch.rad2deg(error)) for error in errors)
            table.add_row(name, f"{share:.0%}", f"{off:.1f}°", f"{off_turned:.1f}°", f"{equivariance:.0e}°")
        table.add_section()
    Console().print(table)


if __name__ == "__main__":
    main()
