"""Low-passed samples: the whole field's waves up to the band and no other, on every grid."""

import numpy as np
import pytest
import torch
from scipy.fft import dctn, dstn, idctn, idstn

from quadnorm.problems import problem

K = 3


def both(p, n):
    return [t[0, 0].numpy() for t in p.sample([1], n, seed=3, dtype=torch.float64)]


@pytest.mark.parametrize("name", ["burgers", "burgers-2d", "navier-stokes"])
def test_periodic_fields(name):
    """By an FFT on enough points, cut at K along each axis; a coarse grid has every eighth value."""
    quick = {"navier-stokes": {"start": 0.1, "horizon": 0.1}}.get(name, {"placement": "periodic", "horizon": 0.02})
    n = 512 if name == "burgers" else 96
    whole, cut, coarse = (both(problem(name, **quick, band=b), m) for b, m in ((0, n), (K, n), (K, n // 8)))
    for f, g, h in zip(whole, cut, coarse, strict=True):
        spectrum = np.fft.fftn(f)
        for axis in range(f.ndim):
            beyond = np.abs(np.fft.fftfreq(n, 1 / n)) > K
            spectrum[(slice(None),) * axis + (beyond,)] = 0
        np.testing.assert_allclose(g, np.fft.ifftn(spectrum).real, atol=1e-10)
        np.testing.assert_allclose(h, g[(slice(None, None, 8),) * f.ndim], atol=1e-12)
        assert np.abs(f - g).max() > 1e-3


def test_burgers_held_at_zero():
    """By a sine transform at interior nodes: sin(mπx) up to m = 2K."""
    n = 511
    whole, cut = (both(problem("burgers", placement="interior", horizon=0.02, band=b), n) for b in (0, K))
    for f, g in zip(whole, cut, strict=True):
        spectrum = dstn(f, type=1)
        spectrum[2 * K :] = 0
        np.testing.assert_allclose(g, idstn(spectrum, type=1), atol=1e-10)


def test_darcy():
    """By a cosine transform on the grid of the solve: cos(kπx) up to k = 2K; nested grids share their values."""
    whole, cut, coarse = (both(problem("darcy", fine=65, band=b), n) for b, n in ((0, 65), (K, 65), (K, 17)))
    for f, g, h in zip(whole, cut, coarse, strict=True):
        spectrum = dctn(f, type=1)
        spectrum[2 * K + 1 :] = 0
        spectrum[:, 2 * K + 1 :] = 0
        np.testing.assert_allclose(g, idctn(spectrum, type=1), atol=1e-12)
        np.testing.assert_allclose(h, g[::4, ::4], atol=1e-12)
    everything = both(problem("darcy", fine=65, band=40), 65)  # more waves than the grid of the solve has
    np.testing.assert_allclose(everything, whole, atol=1e-12)


def test_the_band_is_a_view():
    """The same instances, so the cache solves none again."""
    for name in ("darcy", "burgers", "navier-stokes"):
        assert problem(name, band=K).key() == problem(name).key()
