"""Products with one matrix per axis."""

import torch

from quadnorm.operators.spectral import products


def test_a_product_that_transposes_gives_the_same_field(monkeypatch):
    mats, t = (torch.randn(16, 20), torch.randn(18, 21)), torch.randn(16, 18, 2, 3)
    fields = []
    for limit in (0, 48):
        monkeypatch.setattr(products, "TRANSPOSED", limit)
        fields.append(products.synthesise_real(t, mats))
    torch.testing.assert_close(fields[0], fields[1], rtol=1e-6, atol=1e-5)
    assert fields[1].is_contiguous()
