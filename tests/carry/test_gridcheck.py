"""Node placement inferred from two resolutions, on nodes built here."""

import math
import warnings

import pytest
import torch

from quadnorm.adapt import check_grid

NODES = {
    "endpoint": lambda n: torch.arange(n, dtype=torch.float64) / (n - 1),
    "cell": lambda n: (torch.arange(n, dtype=torch.float64) + 0.5) / n,
    "left": lambda n: torch.arange(n, dtype=torch.float64) / n,
    "periodic": lambda n: torch.arange(n, dtype=torch.float64) / n,
}


def field(names, sizes):
    parts = []
    for k, (p, n) in enumerate(zip(names, sizes, strict=True)):
        r = NODES[p](n)
        wave = torch.sin(2 * math.pi * r + k) + 0.3 * torch.cos(4 * math.pi * r)
        parts.append(wave if p == "periodic" else wave + torch.exp((1 + k) * r))
    if len(parts) == 1:
        return parts[0][None, None]
    return (parts[0][:, None] * parts[1] + parts[1] ** 2)[None, None]


@pytest.mark.parametrize(
    "names", [(p,) for p in NODES] + [("endpoint", "cell"), ("left", "endpoint"), ("cell", "periodic")]
)
@pytest.mark.parametrize(("coarse", "fine"), [(32, 64), (33, 65), (24, 100)])
def test_every_placement_is_found(names, coarse, fine):
    d = len(names)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check = check_grid(field(names, (coarse,) * d), field(names, (fine,) * d), names)
    assert check.placement == names
    assert check.sure
    assert "samples look" in str(check)


def test_contradictions_are_told():
    data = [field(("cell", "cell"), (n, n)) for n in (32, 64)]
    with pytest.warns(UserWarning, match=r"declared endpoint, endpoint, but samples look cell, cell"):
        check_grid(*data, "endpoint")


def test_left_declared_periodic_shares_its_nodes():
    data = [field(("left",), (n,)) for n in (32, 64)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert check_grid(*data, "periodic").placement == ("left",)


def test_constant_data_does_not_tell():
    check = check_grid(torch.ones(1, 1, 16), torch.ones(1, 1, 32), "cell")
    assert not check.sure
    assert "does not tell them apart" in str(check)


def test_noise_does_not_make_it_sure():
    torch.manual_seed(0)
    assert not check_grid(torch.randn(1, 1, 16), torch.randn(1, 1, 32)).sure


def test_errors():
    with pytest.raises(ValueError, match="differ in the last 1 axes only"):
        check_grid(torch.ones(1, 2, 16), torch.ones(1, 1, 32))
    with pytest.raises(ValueError, match="coarser on every axis"):
        check_grid(torch.ones(1, 1, 32), torch.ones(1, 1, 16))


@pytest.mark.parametrize("rate", [2.0, 9.0])
def test_means_over_cells_are_told_from_samples(rate):
    """∫ sin(rate·x + k) over cells, by calculus, against the values at their centres."""

    def edges(n):
        return torch.arange(n + 1, dtype=torch.float64) / n

    def means(n):
        e = edges(n)
        return torch.stack([n * (torch.cos(rate * e[:-1] + k) - torch.cos(rate * e[1:] + k)) / rate for k in range(3)])

    def centres(n):
        e = edges(n)
        return torch.stack([torch.sin(rate * (e[1:] + e[:-1]) / 2 + k) for k in range(3)])

    check = check_grid(means(16)[:, None], means(64)[:, None])
    assert check.means
    assert check.sure
    assert check.placement == ("cell",)
    assert "means over the cells" in str(check)
    points = check_grid(centres(16)[:, None], centres(64)[:, None])
    assert not points.means
    assert points.placement == ("cell",)


def test_arrays_are_taken_and_what_is_no_field_is_refused():
    c, f = field(("cell", "cell"), (16, 12)).numpy(), field(("cell", "cell"), (64, 60)).numpy()
    assert check_grid(c, f).placement == ("cell", "cell")
    with pytest.raises(ValueError, match="expected two tensors"):
        check_grid(3, 4)


def test_nested_samples_are_no_means():
    x = torch.randn(2, 1, 33, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert not check_grid(x[..., ::2], x).means


def test_the_coarser_grid_has_four_samples_or_more_and_fewer_than_the_finer_one():
    f = lambda n: torch.exp(torch.linspace(0, 1, n, dtype=torch.float64))[None, None]  # noqa: E731
    assert check_grid(f(4), f(13)).placement == ("endpoint",)
    for n, m in ((3, 13), (9, 9), (13, 9)):
        with pytest.raises(ValueError, match="the first grid must be coarser on every axis, with 4 samples or more"):
            check_grid(f(n), f(m))
