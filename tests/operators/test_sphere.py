"""An FNO on latitude–longitude arrays: area in its norms and sums, land left out, masks that are asked for."""

import pytest
import torch

import quadnorm as qn
from quadnorm.operators import FNO

SIZES = [(19, 36), (37, 72), (73, 144), (145, 288)]


def sphere(n, m):
    """Smooth functions on the sphere, and the sea: True where a sample is there."""
    latitude = torch.linspace(-torch.pi / 2, torch.pi / 2, n, dtype=torch.float64)[:, None]
    longitude = torch.arange(m, dtype=torch.float64) * 2 * torch.pi / m
    waves = [
        latitude.cos() * longitude.cos(),
        latitude.cos() ** 2 * (2 * longitude).sin(),
        latitude.sin() + 0 * longitude,
    ]
    return torch.stack(waves)[None], latitude.cos() * (longitude - 1).cos() <= 0.5


def fno(norm, measure):
    torch.manual_seed(0)
    return FNO(3, 1, width=8, modes=4, layers=2, norm=norm, measure=measure).double().eval()


@torch.no_grad()
def drift(model, masked):
    """Relative differences to the finest grid, at the samples that all grids share."""
    common = sphere(*SIZES[0])[1]
    outputs = []
    for n, m in SIZES:
        x, sea = sphere(n, m)
        step = (n - 1) // (SIZES[0][0] - 1)
        y = (model(x, mask=sea) if masked else model(x))[..., ::step, ::step]
        outputs.append(y[..., common] if masked else y)
    return [float((y - outputs[-1]).norm() / outputs[-1].norm()) for y in outputs[:-1]]


@pytest.mark.parametrize("masked", [False, True], ids=["globe", "sea"])
def test_area_keeps_the_grid_out(masked):
    counted, weighed = drift(fno("layer", "counting"), masked), drift(fno("quad", qn.LatLon("equiangular")), masked)
    print("counting", *(f"{d:.1e}" for d in counted), "area", *(f"{d:.1e}" for d in weighed))
    assert all(w < c / 5 for w, c in zip(weighed, counted, strict=True))
    assert weighed[0] > weighed[1] > weighed[2]


def test_without_the_longitude_the_globe_is_of_second_order():
    """As a coordinate it jumps where the circle closes, which costs an order; nothing else does."""
    model = fno("quad", qn.LatLon("equiangular"))
    with torch.no_grad():
        model.lift.weight[:, -1] = 0
    coarse, middle, fine = drift(model, masked=False)
    print("no longitude", f"{coarse:.1e} {middle:.1e} {fine:.1e}")
    assert coarse / middle > 3.5  # (1 − 1/64) : (1/4 − 1/64) is 4.2, and 7/3 for the first order
    assert middle / fine > 4  # 5, and 3 for the first order


def test_land_is_never_read_and_its_mask_is_asked_for():
    model = fno("quad", qn.LatLon("equiangular"))
    x, sea = sphere(19, 36)
    there = model(x, mask=sea)[..., sea]
    x[..., ~sea] = torch.nan
    assert torch.equal(model(x, mask=sea)[..., sea], there)
    with pytest.raises(ValueError, match=r"mask has shape \(37, 72\)"):
        model(x, mask=sphere(37, 72)[1])
