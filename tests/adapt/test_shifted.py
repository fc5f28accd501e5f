"""Shifted native runs, against formulas, a slow reference, and what they must refuse."""

from fractions import Fraction
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

import quadnorm as qn
from quadnorm.adapt import CannotFollowError
from quadnorm.adapt.shifted import ShiftedRuns
from quadnorm.adapt.shifting import shifted_runs
from quadnorm.adapt.shifts import axis_shifts
from tests.adapt.models import ClassicFNO

PLACES = {  # node j of n as an exact fraction, written down again here
    "endpoint": lambda j, n: Fraction(j, n - 1),
    "cell": lambda j, n: Fraction(2 * j + 1, 2 * n),
    "periodic": lambda j, n: Fraction(j, n),
    "left": lambda j, n: Fraction(j, n),
    "interior": lambda j, n: Fraction(j + 1, n + 1),
}
FINER = {  # r times finer
    "endpoint": lambda n, r: r * (n - 1) + 1,
    "cell": lambda n, r: r * n,
    "periodic": lambda n, r: r * n,
    "left": lambda n, r: r * n,
    "interior": lambda n, r: r * (n + 1) - 1,
}


class Stencil(nn.Module):
    """A convolution without padding, whose outermost outputs are repeated: no sample outside the grid is read."""

    def __init__(self, d):
        super().__init__()
        self.conv = (nn.Conv1d, nn.Conv2d)[d - 1](1, 2, 3, dtype=torch.float64)

    def forward(self, x):
        return F.pad(self.conv(x), (1, 1) * (x.ndim - 2), mode="replicate")


def reference(model, x, placement, n0):
    """1-D, one target node after the other: the definition, with samples looked up by their exact places."""
    n = x.shape[-1]
    place, wraps = PLACES[placement], placement == "periodic"
    known = {place(j, n): x[..., j] for j in range(n)}
    first, last, h0 = min(known), max(known), place(1, n0) - place(0, n0)

    def value(r):
        if wraps:
            return known[r % 1]
        if r < first:
            return 2 * known[first] - known[2 * first - r]
        if r > last:
            return 2 * known[last] - known[2 * last - r]
        return known[r]

    columns = []
    for j in range(n):
        index = (place(j, n) - place(0, n0)) / h0
        i = index.numerator // index.denominator
        theta = index - i
        both = []
        for shift, node, share in ((theta, i, 1 - theta), (theta - 1, i + 1, theta)):
            if share and (wraps or 0 <= node < n0):
                grid = torch.stack([value(place(k, n0) + shift * h0) for k in range(n0)], -1)
                both.append((float(share), model(grid)[..., node % n0]))
        columns.append(sum(w * y for w, y in both) / sum(w for w, _ in both))
    return torch.stack(columns, -1)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(placement=st.sampled_from(sorted(PLACES)), n0=st.integers(4, 9), r=st.integers(2, 4), seed=st.integers(0, 9))
def test_is_the_definition(placement, n0, r, seed):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Conv1d(1, 3, 3, padding=1), nn.Tanh(), nn.Conv1d(3, 2, 3, padding=1)).double()
    n = FINER[placement](n0, r)
    x = torch.randn(2, 1, n, dtype=torch.float64)
    with torch.no_grad():
        y = ShiftedRuns(model, (n0,), (placement,))(x)
        torch.testing.assert_close(y, reference(model, x, placement, n0), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("placement", sorted(PLACES))
def test_a_stencil_keeps_its_width(placement):
    """Σ_k w_k f(r + k h₀) at every new node, h₀ the training spacing: exact inside, whatever the ratio of each axis."""
    model = Stencil(2)
    n0, n = (8, 7), (FINER[placement](8, 2), FINER[placement](7, 3))

    def f(x, y):
        return torch.sin(2 * torch.pi * x + 1) * torch.cos(2 * torch.pi * y)

    def nodes(k, sizes):
        return torch.tensor([float(PLACES[placement](j, sizes[k])) for j in range(sizes[k])], dtype=torch.float64)

    axes = [nodes(k, n) for k in range(2)]
    h0 = [nodes(k, n0)[1] - nodes(k, n0)[0] for k in range(2)]
    fine = torch.meshgrid(*axes, indexing="ij")
    w, b = model.conv.weight, model.conv.bias
    with torch.no_grad():
        y = ShiftedRuns(model, n0, (placement,) * 2)(f(*fine)[None, None])
        exact = sum(
            w[:, 0, i, j, None, None] * f(fine[0] + (i - 1) * h0[0], fine[1] + (j - 1) * h0[1])
            for i, j in product(range(3), repeat=2)
        )
    inside = (..., slice(4, -4), slice(6, -6))
    torch.testing.assert_close(y[0][inside], (exact + b[:, None, None])[inside], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("placement", "n0", "n"), [("periodic", 16, 24), ("cell", 16, 24), ("endpoint", 17, 25)])
def test_a_ratio_that_is_not_whole(placement, n0, n):
    """At 1.5 times the grid a smooth field is interpolated to the shifted nodes: the stencil's width is still h₀."""
    model = Stencil(1)
    r, coarse = (torch.tensor([float(PLACES[placement](j, m)) for j in range(m)], dtype=torch.float64) for m in (n, n0))
    h0 = coarse[1] - coarse[0]
    f = lambda r: torch.sin(2 * torch.pi * r + 1)  # noqa: E731
    with torch.no_grad():
        y = ShiftedRuns(model, (n0,), (placement,))(f(r)[None, None])[0]
        exact = sum(model.conv.weight[:, 0, k, None] * f(r + (k - 1) * h0) for k in range(3))
        exact = exact + model.conv.bias[:, None]
    inside = (slice(None), slice(4, -4))
    torch.testing.assert_close(y[inside], exact[inside], rtol=0, atol=1e-9 if placement == "periodic" else 3e-4)


@pytest.mark.parametrize(("n", "n0"), [(100, 33), (47, 33), (101, 64)])
def test_grids_with_nothing_in_common_go_over_a_whole_multiple(n, n0):
    model = Stencil(1).float()
    shifted = shifted_runs(model, (n0,), "endpoint")
    assert shifted.runs((n,)) <= 2 * -(-n // n0) + 1
    r, h0 = torch.linspace(0, 1, n), 1 / (n0 - 1)
    f = lambda r: torch.sin(3 * r + 1)  # noqa: E731
    with torch.no_grad():
        y = shifted(f(r)[None, None])[0]
        exact = sum(model.conv.weight[:, 0, k, None] * f(r + (k - 1) * h0) for k in range(3)) + model.conv.bias[:, None]
    torch.testing.assert_close(y[:, 6:-6], exact[:, 6:-6], rtol=0, atol=1e-4)


@pytest.mark.parametrize("placement", sorted(PLACES))
def test_a_coarser_grid_gets_the_native_output_there(placement):
    n0 = {"endpoint": 17, "interior": 15}.get(placement, 16)
    n = {"endpoint": 9, "interior": 7}.get(placement, 8)
    model = Stencil(1)
    r = torch.tensor([float(PLACES[placement](j, n)) for j in range(n)], dtype=torch.float64)
    coarse = torch.tensor([float(PLACES[placement](j, n0)) for j in range(n0)], dtype=torch.float64)
    f = lambda r: torch.sin(2 * torch.pi * r + 1)  # noqa: E731
    with torch.no_grad():
        y = ShiftedRuns(model, (n0,), (placement,))(f(r)[None, None])[0]
        exact = sum(model.conv.weight[:, 0, k, None] * f(r + (k - 1) * (coarse[1] - coarse[0])) for k in range(3))
    assert (y - exact - model.conv.bias[:, None])[:, 2:-2].abs().max() < 0.02


def circular(channels, stride=1):
    return nn.Conv2d(*channels, 3, stride=stride, padding=1, padding_mode="circular")


def test_one_run_per_shift_where_rolls_commute_and_up_to_three_where_not():
    plain = nn.Sequential(circular((1, 4)), nn.Tanh(), circular((4, 1)))
    assert shifted_runs(plain, (8, 8), "periodic").runs((32, 32)) == 16
    strided = nn.Sequential(circular((1, 4), 2), nn.Tanh(), nn.Upsample(scale_factor=2), circular((4, 1)))
    assert shifted_runs(strided, (8, 8), "periodic").runs((32, 32)) == 37  # of 49 with both signs on each axis
    assert shifted_runs(plain, (8, 9), ("periodic", "endpoint")).runs((32, 33)) == 4 * 7


def test_two_axes_blend_on_simplices():
    """At (θ, φ) with θ ≥ φ: (1 − θ) of the run shifted by both, θ − φ shifted back on the first axis, φ on both."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), nn.Tanh(), nn.Conv2d(3, 1, 3, padding=1)).double()
    r, m, x = 4, 5, torch.randn(1, 1, 17, 17, dtype=torch.float64)
    index = torch.arange(-r, 17 + r)
    for k in (2, 3):  # odd reflection about the outermost samples
        edge, mirror = index.clamp(0, 16), 16 - (16 - index.abs()).abs()
        x = torch.where(
            (index == edge).view([-1] + [1] * (3 - k)),
            x.index_select(k, edge),
            2 * x.index_select(k, edge) - x.index_select(k, mirror),
        )

    def run(s, t):
        return model(x[..., r + s : r + s + r * m : r, r + t : r + t + r * m : r][..., :m, :m])

    with torch.no_grad():
        y = ShiftedRuns(model, (m, m), ("endpoint",) * 2)(x[..., r:-r, r:-r])
        for a, b in product(range(1, r), repeat=2):
            back = (run(a - r, b), (0, 1), (0, 0)) if a >= b else (run(a, b - r), (0, 0), (0, 1))
            high, low = max(a, b) / r, min(a, b) / r
            expected = (1 - high) * run(a, b)[..., :-1, :-1]
            expected = expected + (high - low) * (back[0][..., 1:, :-1] if a >= b else back[0][..., :-1, 1:])
            expected = expected + low * run(a - r, b - r)[..., 1:, 1:]
            torch.testing.assert_close(y[..., a::r, b::r], expected, rtol=1e-12, atol=1e-12)


def test_floor_and_blend_agree_where_rolls_commute():
    model = nn.Sequential(circular((1, 4)), nn.Tanh(), circular((4, 1)))
    x = torch.randn(1, 1, 24, 24)
    with torch.no_grad():
        one = ShiftedRuns(model, (8, 8), ("periodic",) * 2, floor=(True, True))(x)
        two = ShiftedRuns(model, (8, 8), ("periodic",) * 2)(x)
    torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-6)


class TwoFields(nn.Module):
    """Two inputs and a time, two outputs and a number for each sample of the batch, channels last."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 2, 3, padding=1)

    def forward(self, u, extra, t):
        x = torch.cat([u, extra["k"]], -1).movedim(-1, 1)
        y = torch.tanh(self.conv(x)) * t[:, None, None, None]
        return {"y": y.movedim(1, -1), "also": (2 * y).movedim(1, -1), "mean": y.mean((1, 2, 3))}


def test_several_arguments_and_outputs_channels_last_in_small_batches():
    model = TwoFields()
    example = (torch.randn(2, 5, 5, 1), {"k": torch.randn(2, 5, 5, 2)}, torch.rand(2))
    shifted = shifted_runs(model, (5, 5), "endpoint", example=example, layout="last")
    u, k, t = torch.randn(2, 9, 13, 1), torch.randn(2, 9, 13, 2), torch.rand(2)
    with torch.no_grad():
        y = shifted(u, {"k": k}, t)
        native = model(u[:, ::2, ::3], {"k": k[:, ::2, ::3]}, t)
        shifted.samples = 1
        alone = shifted(u, {"k": k}, t)
    assert y["y"].shape == (2, 9, 13, 2)
    torch.testing.assert_close(y["y"][:, ::2, ::3], native["y"])
    torch.testing.assert_close(y["also"], 2 * y["y"])
    torch.testing.assert_close(y["mean"], native["mean"])
    torch.testing.assert_close(alone["y"], y["y"])


def test_batches_stay_below_the_bound():
    sizes = []
    model = nn.Conv2d(1, 1, 3, padding=1)
    model.register_forward_pre_hook(lambda m, args: sizes.append(len(args[0])))
    shifted = ShiftedRuns(model, (9, 9), ("endpoint",) * 2, samples=4 * 81)
    shifted(torch.randn(2, 1, 33, 33))
    assert max(sizes) == 4
    assert sum(sizes) == 2 * shifted.runs((33, 33))


def test_gradients():
    model = nn.Sequential(nn.Conv1d(1, 2, 3, padding=1), nn.Tanh(), nn.Conv1d(2, 1, 3, padding=1)).double()
    shifted = ShiftedRuns(model, (5,), ("endpoint",))
    x = torch.randn(1, 1, 9, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(shifted, (x,))
    shifted(x).sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters())


@pytest.mark.parametrize("n", [13, 17])  # places between samples, and samples alone
def test_a_call_in_inference_mode_leaves_nothing_that_could_not_train(n):
    shifted = ShiftedRuns(nn.Conv1d(1, 1, 3, padding=1).double(), (9,), ("endpoint",))
    x = torch.randn(2, 1, n, dtype=torch.float64)
    axis_shifts.__wrapped__.cache_clear()
    with torch.inference_mode():
        y = shifted(x)
    z = shifted(x.requires_grad_())
    z.sum().backward()
    assert torch.equal(y, z)


def test_frozen_statistics_stay_frozen():
    model = nn.Sequential(nn.Conv1d(1, 3, 2, 2), nn.BatchNorm1d(3), nn.Upsample(scale_factor=2), nn.Conv1d(3, 1, 1))
    extended = qn.extend(model, 8, "periodic")
    assert extended.stencils == "shifted"
    model.train()
    model[1].eval()
    mean = model[1].running_mean.clone()
    extended(torch.randn(2, 1, 16) + 3)
    assert [m.training for m in model] == [True, False, True, True]
    assert torch.equal(model[1].running_mean, mean)


@pytest.mark.parametrize("way", ["graph", "eager"])
def test_gradients_of_a_strided_model(way):
    """By input and parameters, through all shifted runs, against a difference quotient."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 3, 3, 2, padding=1), nn.Tanh(), nn.Upsample(scale_factor=2), nn.Conv2d(3, 1, 1))
    extended = qn.extend(model.double(), (6, 6), "endpoint", example=torch.randn(1, 1, 6, 6).double())
    assert extended.stencils == "shifted"
    run = extended if way == "graph" else lambda x: extended.run_steered((x,), {}, (11, 11))
    x = torch.randn(2, 1, 11, 11, dtype=torch.float64, requires_grad=True)
    leaves = [x, *model.parameters()]
    found = torch.autograd.grad(run(x).square().sum(), leaves)
    for leaf, gradient in zip(leaves, found, strict=True):
        along, step = torch.randn_like(leaf), 1e-6
        with torch.no_grad():
            leaf += step * along
            high = run(x).square().sum()
            leaf -= 2 * step * along
            low = run(x).square().sum()
            leaf += step * along
        torch.testing.assert_close((gradient * along).sum(), (high - low) / (2 * step), rtol=1e-6, atol=1e-7)
    assert extended.obstacles == {}


def test_labels_take_the_nearest_sample():
    class Embedded(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(3, 2)

        def forward(self, x):
            return self.table(x[:, 0]).movedim(-1, 1)

    model = Embedded()
    shifted = ShiftedRuns(model, (5,), ("endpoint",))
    x = torch.randint(3, (1, 1, 9))
    torch.testing.assert_close(shifted(x), model(x))  # acts on single samples


class VisionTransformer(nn.Module):
    """Patches of 4×4 samples, learned positions: runs at 16×16 only."""

    def __init__(self):
        super().__init__()
        self.patch, self.head = nn.Conv2d(1, 8, 4, stride=4), nn.ConvTranspose2d(8, 1, 4, stride=4)
        self.positions = nn.Parameter(torch.randn(1, 16, 8))
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x):
        t = self.patch(x).flatten(2).mT + self.positions
        return self.head((t + self.attention(t, t, t)[0]).mT.unflatten(2, (4, 4)))


def test_a_model_that_runs_on_one_grid_only():
    model = VisionTransformer().eval()
    shifted = shifted_runs(model, (16, 16), "periodic")
    x = torch.randn(1, 1, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(shifted(x)[..., ::2, ::2], model(x[..., ::2, ::2]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("coordinates", ["linspace", "arange"])
def test_coordinates_of_the_models_own_making_are_refused(coordinates):
    with pytest.raises(CannotFollowError, match=r"of its own making.*cat.*quadnorm\.extend"):
        shifted_runs(ClassicFNO(coordinates=coordinates), (17, 17), "endpoint")


def test_cached_coordinates_are_refused_too():
    class Cached(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.grid = nn.Conv1d(1, 2, 3, padding=1), None

        def forward(self, x):
            if self.grid is None:
                self.grid = torch.linspace(0, 1, x.shape[-1])
            return self.conv(x) + self.grid

    model = Cached()
    model(torch.randn(1, 1, 9))
    with pytest.raises(CannotFollowError, match="of its own making"):
        shifted_runs(model, (9,), "endpoint")


def test_a_time_embedding_is_no_coordinate():
    class Timed(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.mix = nn.Conv1d(1, 16, 3, padding=1), nn.Linear(16, 16)

        def forward(self, x, t):
            waves = torch.sin(t[:, None] * torch.arange(16) / 16)
            return self.conv(x) + self.mix(waves)[..., None]

    shifted = shifted_runs(Timed(), (16,), "periodic", example=(torch.randn(2, 1, 16), torch.rand(2)))
    assert shifted(torch.randn(2, 1, 32), torch.rand(2)).shape == (2, 16, 32)


def test_outputs_on_another_grid_are_refused():
    with pytest.raises(CannotFollowError, match="at_native serves outputs on other grids"):
        shifted_runs(nn.Conv1d(1, 1, 2, stride=2), (8,), "periodic")


def test_a_model_that_takes_one_sample_at_a_time():
    class Single(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv1d(1, 1, 3, padding=1)

        def forward(self, x):
            if len(x) != 1:
                raise ValueError("one at a time")
            return self.conv(x)

    shifted = shifted_runs(Single(), (9,), "endpoint")
    extended = qn.extend(nn.Sequential(Single(), nn.MaxPool1d(3, 1, 1)), 9, "endpoint")
    assert extended.stencils == "shifted"
    for model in (shifted, extended):
        assert model.samples == 1
        assert model(torch.randn(1, 1, 17)).shape == (1, 1, 17)


def test_bad_arguments():
    with pytest.raises(ValueError, match="cubic"):
        ShiftedRuns(nn.Identity(), (5,), ("endpoint",), restrict="cubik")
    with pytest.raises(ValueError, match="positive"):
        ShiftedRuns(nn.Identity(), (5,), ("endpoint",), samples=0)
