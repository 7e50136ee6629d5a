"""How the scores of several readers become one distribution over candidates and classes.

The logarithm of the probability that candidate *k* is upright and that the shape is of class *c* is, up to a constant,
a weighted sum: of the readers' scores of the up direction of *k*, and of the logarithms of their probabilities of *c*,
seen from *k*. A candidate from which all readers recognise the same class is therefore likelier than one about which
they disagree.
"""

from typing import NamedTuple

import torch
from torch import Tensor


class ScoreWeights(NamedTuple):
    """How much each reader's scores count.

    Attributes:
        upright: of the up direction: scorer, reader, and projections if they are read.
        classes: of the classes: reader, projections, and invariant reader, as far as they exist.
    """

    upright: tuple[float, ...] | Tensor
    classes: tuple[float, ...] | Tensor


_WEIGHTS = {  # by whether there are projections and an invariant reader
    (False, False): ScoreWeights((0.39, 0.79), (1.41,)),
    (False, True): ScoreWeights((0.40, 0.78), (0.84, 0.70)),
    (True, False): ScoreWeights((0.26, 0.66, 0.34), (0.68, 0.89)),
    (True, True): ScoreWeights((0.26, 0.61, 0.37), (0.34, 0.75, 0.57)),
}


def score_weights(projections: bool, invariant: bool) -> ScoreWeights:
    """Look up the weights of a network's readers.

    They maximise the likelihood of the correct candidates and classes on shapes of ModelNet40 that training held out,
    whole and as views (`benchmarks/reader_weights.py`).

    Args:
        projections: whether there is a reader of projections.
        invariant: whether there is an invariant reader.

    Returns:
        The weights.
    """
    return _WEIGHTS[projections, invariant]


def join_scores(upright: Tensor, classes: Tensor, weights: ScoreWeights) -> Tensor:
    """Combine the scores of all readers.

    Args:
        upright: (..., R, U), the scores of R candidates' up directions by each reader.
        classes: (..., R, C, K), the scores of the classes seen from each candidate, by each reader.
        weights: U and K of them.

    Returns:
        (..., R, C), the logarithms of joint probabilities of candidate and class, up to a constant.
    """
    of_upright, of_classes = (torch.as_tensor(each, dtype=upright.dtype, device=upright.device) for each in weights)
    return (upright @ of_upright)[..., None] + classes.log_softmax(-2) @ of_classes
