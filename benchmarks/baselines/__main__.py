"""The commands of `qec`, with the baselines registered: python -m benchmarks.baselines train --config pointnet ..."""

import benchmarks.baselines  # noqa: F401  (registers them)

from qecnet.cli.main import app

if __name__ == "__main__":
    app()
