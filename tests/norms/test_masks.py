"""mask= multiplies the measure, weights= replace it; absent samples are never read."""

import numpy as np
import pytest
import torch

from quadnorm.measures import Blend, Grid, Weights
from quadnorm.norms import (
    AnchoredNorm,
    BlendQuadNorm,
    LayerNorm,
    LearnableQuad,
    NoNorm,
    QuadBandNorm,
    QuadNorm,
    QuadRMSNorm,
    SpectralNorm,
    TokenNorm,
    quad_norm,
    quad_norm_ragged,
)
from quadnorm.norms.kernels import core
from tests.norms.reference import counting_weights, reference, trapezoid_weights


def masked_field(shape=(3, 4, 7, 6)):
    x = torch.randn(shape)
    mask = torch.rand(shape[0], *shape[2:]) > 0.3
    mask.flatten(1)[:, 0] = True
    return torch.where(mask[:, None], x, torch.nan), mask


@pytest.mark.parametrize("per_entry", [True, False])
def test_the_mask_multiplies_the_measure(kernel, per_entry):
    x, mask = masked_field()
    if not per_entry:
        mask, x = mask[0], torch.where(mask[0], x.nan_to_num(7.0), torch.inf)
    t, c = trapezoid_weights((7, 6)), counting_weights((7, 6))
    keep = mask.double().numpy()
    present = mask.expand(3, 7, 6)[:, None].expand_as(x)
    cases = {
        QuadNorm(4): t * keep,
        QuadNorm(4, measure="midpoint"): c * keep,
        LayerNorm(4): c * keep,
        LearnableQuad(4): t * keep,
        AnchoredNorm(4, (7, 6)): c * keep,
    }
    for layer, w in cases.items():
        y = layer(x, mask=mask)
        torch.testing.assert_close(y[present].double(), reference(x.nan_to_num(0, 0, 0), w)[present], atol=2e-6, rtol=0)
    functional = quad_norm(x, Grid("trapezoid"), mask=mask)
    torch.testing.assert_close(functional, QuadNorm(4)(x, mask=mask))
    rms = QuadRMSNorm(4)(x, mask=mask)
    want = reference(x.nan_to_num(0, 0, 0), t * keep, 4, centre=False)
    torch.testing.assert_close(rms[present].double(), want[present], atol=2e-6, rtol=0)


def test_a_blend_counts_the_samples_that_are_there(kernel):
    """Four ways to say the same thing; a fill value behind the mask must not be seen by any."""
    x, mask = masked_field((2, 4, 9))
    mask, x = mask[0], torch.where(mask[0], x.nan_to_num(1.0), 9.97e36)
    t, keep = trapezoid_weights((9,)), mask.double().numpy()
    w = 0.3 * keep / keep.sum() + 0.7 * t * keep / (t * keep).sum()
    want = reference(torch.where(mask, x, 0.0), w)[..., mask]
    quadrature = Grid("trapezoid").masked(mask)
    ways = [
        BlendQuadNorm(4)(x, mask=mask),
        BlendQuadNorm(4)(x, weights=torch.from_numpy(t) * mask),
        BlendQuadNorm(4, measure=quadrature)(x),
        BlendQuadNorm(4, measure=quadrature, learn_alpha=True)(x),
        QuadNorm(4, measure=Blend(0.3, quadrature))(x),
    ]
    for y in ways:
        torch.testing.assert_close(y[..., mask].double(), want, atol=2e-6, rtol=0)
    every = BlendQuadNorm(4, 1.0, measure=quadrature)(x)
    torch.testing.assert_close(
        every[..., mask].double(), reference(torch.where(mask, x, 0.0), keep)[..., mask], atol=2e-6, rtol=0
    )
    np.testing.assert_allclose(Blend(0.3, quadrature).weights(9), w)


def test_mask_and_weights_together_and_everywhere(kernel):
    x, mask = masked_field()
    w = torch.rand(7, 6)
    torch.testing.assert_close(QuadNorm(4)(x, weights=w, mask=mask), QuadNorm(4)(x, weights=w * mask))
    clean = x.nan_to_num(0.0)
    assert torch.isfinite(QuadBandNorm(4, bands=3)(x, mask=mask)).all()
    for layer in (NoNorm(4), TokenNorm(4), SpectralNorm(4)):
        assert torch.equal(layer(clean, mask=mask), layer(clean))
    for layer in (QuadBandNorm(4, bands=3), SpectralNorm(4), SpectralNorm(4, measure="trapezoid")):
        ways = [layer(torch.where(mask[0], clean, fill), mask=mask[0]) for fill in (torch.nan, 0.0, 123.0)]
        assert torch.equal(ways[0], ways[1])  # a transform would spread what the mask hides
        assert torch.equal(ways[1], ways[2])
    flat = clean.flatten(2).movedim(1, -1).reshape(-1, 4)
    batch = torch.arange(3).repeat_interleave(42)
    ragged = quad_norm_ragged(flat, w.flatten().repeat(3), batch, mask=mask.flatten())
    torch.testing.assert_close(
        ragged.reshape(3, 42, 4).movedim(-1, 1).reshape(x.shape), QuadNorm(4)(clean, weights=w, mask=mask)
    )
    last = QuadNorm(4, layout="last")
    torch.testing.assert_close(last(x.movedim(1, -1), mask=mask).movedim(-1, 1), QuadNorm(4)(x, mask=mask))


def test_wrong_masks_and_weights():
    x, layer = torch.randn(2, 4, 5), QuadNorm(4)
    with pytest.raises(TypeError, match=r"mask\.bool\(\)"):
        layer(x, mask=torch.ones(5))
    with pytest.raises(ValueError, match=r"the mask has shape \(4,\); expected .*\(5,\)"):
        layer(x, mask=torch.ones(4, dtype=torch.bool))
    mask = torch.ones(2, 5, dtype=torch.bool)
    mask[1] = False
    with pytest.raises(ValueError, match=r"the mask leaves nothing of batch entries \[1\]"):
        layer(x, mask=mask)
    for bad in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="NaN or infinite"):
            layer(x, weights=torch.tensor([1.0, bad, 1.0, 1.0, 1.0]))


def test_weights_of_any_scale(kernel):
    """Finite weights are accepted, also where their sum is not finite in their own dtype."""
    x, w = torch.randn(2, 4, 5), torch.tensor([1.0, 2.0, 0.0, 3.0, 1.0])
    want = QuadNorm(4)(x, weights=w)
    for scale in (1e38, 1e-37):
        torch.testing.assert_close(QuadNorm(4)(x, weights=w * scale), want)
        rows, batch = x[0].T.contiguous(), torch.zeros(5, dtype=torch.int64)
        torch.testing.assert_close(quad_norm_ragged(rows, w * scale, batch), want[0].T)
    torch.testing.assert_close(QuadNorm(4, measure=Weights(w.double() * 1e38))(x), want)


def test_fields_without_fill_values_are_not_swept_for_them(kernel, monkeypatch):
    """Replacing fill values costs several sweeps, forward and backward; most masked fields hold none."""
    swept = []
    before = core.without_fill_values
    monkeypatch.setattr(core, "without_fill_values", lambda x, w: swept.append(1) or before(x, w))
    layer, x = QuadNorm(4), torch.randn(2, 4, 7, 6)
    mask = torch.rand(2, 7, 6) > 0.3
    mask[:, 0, 0], mask[:, 0, 1] = False, True
    expected = layer(x, mask=mask)
    assert not swept
    for fill in (float("nan"), float("inf"), -1e20):
        holes = torch.where(mask[:, None], x, fill)
        torch.testing.assert_close(layer(holes, mask=mask)[:, :, 0, 1], expected[:, :, 0, 1])
    assert len(swept) == (0 if kernel == "triton" else 3)  # that kernel reads fill values as 0 by itself
