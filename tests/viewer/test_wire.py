"""`unpack` inverts `pack`, here in Python and by the page's own script in the browser tests."""

import numpy as np
import torch

from qecnet.viewer.wire import pack, unpack


def test_unpack_inverts_pack():
    arrays = {
        "points": torch.randn(5, 3, dtype=torch.float64),
        "none": torch.zeros(0, 3),
        "faces": torch.tensor([[0, 1, 70_000]]),
        "valid": torch.tensor([True, False]),
        "transposed": torch.arange(6.0).view(2, 3).T,
    }
    for text in ("", "é", "four"):
        header, found = unpack(pack({"name": text}, arrays))
        assert header == {"name": text}
        assert [*found] == [*arrays]
        for name, tensor in arrays.items():
            assert found[name].shape == tuple(tensor.shape)
            np.testing.assert_allclose(found[name], tensor.numpy(), rtol=1e-6)


def test_arrays_are_aligned_to_four_bytes():
    """Typed arrays of a browser require it."""
    for text in ("", "a", "ab", "abc"):
        data = pack({"name": text}, {"x": torch.zeros(1)})
        assert int.from_bytes(data[:4], "little") % 4 == 0
