"""Temperatures: found again where they are known, and what they leave alone."""

import pytest
import torch

from qecnet.nn import calibrated, fit_temperature


def scores(count=4000, classes=5, seed=0):
    return 3 * torch.randn(count, classes, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def drawn(probabilities):
    return probabilities.multinomial(1, generator=torch.Generator().manual_seed(1))[:, 0]


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
def test_the_temperature_that_labels_were_drawn_with_is_found(temperature):
    sure = scores().softmax(-1)
    assert fit_temperature(sure, drawn(calibrated(sure, temperature))) == pytest.approx(temperature, rel=0.05)


def test_no_other_temperature_is_more_likely():
    activations = torch.sigmoid(scores(300) - 2)  # as the paper's network has them: they do not add up to 1
    labels = drawn(calibrated(activations, 0.7))
    best = fit_temperature(activations, labels)

    def likelihood(temperature):
        return float(calibrated(activations, temperature).gather(-1, labels[:, None]).log().mean())

    assert all(likelihood(best) > likelihood(best * factor) for factor in (0.5, 0.9, 0.99, 1.01, 1.1, 2))


def test_a_temperature_keeps_the_order_and_adds_up_to_one():
    activations = torch.sigmoid(scores(50)).float()
    for temperature in (0.2, 1.0, 5.0):
        found = calibrated(activations, temperature)
        torch.testing.assert_close(found.sum(-1), torch.ones(50))
        assert torch.equal(found.argsort(-1), activations.argsort(-1))
    softmax = scores(50).softmax(-1)
    torch.testing.assert_close(calibrated(softmax), softmax)


def test_activations_of_nothing_are_all_alike():
    torch.testing.assert_close(calibrated(torch.zeros(2, 4), 0.5), torch.full((2, 4), 0.25))
    torch.testing.assert_close(calibrated(torch.tensor([1.0, 0, 0])), torch.tensor([1.0, 0, 0]))


def test_where_all_are_right_nothing_is_learned_of_confidence():
    activations = scores(20).softmax(-1)
    assert fit_temperature(activations, activations.argmax(-1)) == 1.0
    with pytest.raises(ValueError, match="held out"):
        fit_temperature(activations[:0], torch.zeros(0, dtype=torch.int64))
