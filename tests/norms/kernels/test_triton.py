"""The Triton programs, run by Triton's interpreter, against the formula in float64."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from quadnorm.norms import QuadNorm
from quadnorm.norms.kernels import formula
from quadnorm.norms.kernels.dispatch import use_kernel
from quadnorm.norms.kernels.inputs import Inputs
from quadnorm.norms.kernels.triton import choice, launch, tiles
from tests.norms.kernels.interpreter import quick, traffic

pytestmark = [
    pytest.mark.skipif(not choice.usable(), reason="no Triton that the kernel was written for"),
    pytest.mark.skipif(not launch.interpreted(), reason="the interpreter is off (TRITON_INTERPRET=0)"),
]


@pytest.fixture(autouse=True)
def _quick():
    with quick():
        yield


@pytest.fixture
def short(monkeypatch):
    """Tiles so small that small tensors have many: every tail and every merger at the price of few programs."""
    monkeypatch.setattr(tiles, "ROW", 64)
    monkeypatch.setattr(tiles, "SHORTEST", 8)
    monkeypatch.setattr(tiles.part_of_row, "__defaults__", (64,))
    monkeypatch.setattr(launch, "TILE", 64)
    monkeypatch.setattr(launch, "SPLITS", 4)
    monkeypatch.setattr(launch, "MERGED", 16)


def run(x, w, gamma, beta, g, groups, centre=True, holes=False):
    """Output, and gradients for x, γ, β and w."""
    y, dx = torch.empty_like(x), torch.empty_like(x)
    stats = torch.empty(3, x.shape[0], groups)
    given = Inputs(x, w, gamma, beta, groups, 1e-5, centre, holes)
    launch.forward(given, y, stats)
    dbeta, dgamma, dw = launch.backward(given, g, stats, dx, True)
    return y, dx, dgamma, dbeta, dw


def expected(x, w, gamma, beta, g, groups, centre=True, holes=False):
    x, w, g = x.double(), w.double(), g.double()
    gamma, beta = (None if p is None else p.double() for p in (gamma, beta))
    fill = torch.zeros_like(x, dtype=torch.bool)
    if holes:
        fill = (w == 0)[:, None] & ~(x.abs() < 1e15)
        x = torch.where(fill, 0, x)
    y = formula.forward(x, w, gamma, beta, groups, 1e-5, centre)
    dx, dgamma, dbeta, dw = formula.backward(g, x, w, gamma, groups, 1e-5, centre, True)
    return y, torch.where(fill, 0, dx), dgamma, dbeta, dw


def inputs(B, C, N, per_sample=False, offset=0.0, dtype=torch.float32, affine=True):
    torch.manual_seed(N)
    x, g = (torch.randn(B, C, N) + offset).to(dtype), torch.randn(B, C, N).to(dtype)
    w = torch.rand(B if per_sample else 1, N) + 0.1
    gamma, beta = (torch.rand(C) + 0.5, torch.randn(C)) if affine else (None, None)
    return x, w / w.sum(1, keepdim=True), gamma, beta, g


def compare(case, atol=2e-5, **options):
    """Every result, relative to its largest number."""
    for got, want in zip(run(*case, **options), expected(*case, **options), strict=True):
        scale = max(1.0, float(want.abs().max()))
        torch.testing.assert_close(got.double() / scale, want / scale, atol=atol, rtol=0)


@pytest.mark.parametrize("N", [1, 16, 33])
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_rows_on_chip(N, groups):
    compare((*inputs(2, 4, N, per_sample=N % 2 == 1), groups))


@pytest.mark.parametrize("N", [128, 201])
@pytest.mark.parametrize("groups", [1, 2])
def test_rows_in_tiles(short, N, groups):
    assert tiles.whole_row(2 // groups, N) is None
    compare((*inputs(2, 2, N, per_sample=N % 2 == 1), groups))


def test_many_channels_of_few_samples(short):
    compare((*inputs(1, 21, 9, affine=False), 7))


def test_tiles_of_true_size():
    compare((*inputs(1, 2, 4099, offset=3.0), 1))


@pytest.mark.parametrize("offset", [1e4, -1e5])
def test_large_offsets(short, offset):
    compare((*inputs(1, 2, 15, offset=offset), 2), atol=5e-5)
    compare((*inputs(1, 1, 150, offset=offset), 1), atol=5e-5)


@pytest.mark.parametrize("N", [12, 70])
def test_root_mean_square(short, N):
    compare((*inputs(1, 2, N), 2), centre=False)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("N", [12, 70])
def test_half_precision_is_the_float32_result_rounded(short, dtype, N):
    x, w, gamma, beta, g = inputs(1, 2, N, dtype=dtype)
    half, full = (run(x.to(t), w, gamma, beta, g.to(t), 1) for t in (dtype, torch.float32))
    for a, b in zip(half, full, strict=True):
        assert torch.equal(a, b.to(a.dtype))
    assert half[0].dtype == dtype
    assert half[2].dtype == torch.float32  # statistics and their gradients
    full = expected(x, w, gamma, beta, g, 1)
    torch.testing.assert_close(half[0].double(), full[0], atol=0.02, rtol=0.01)


@pytest.mark.parametrize(("N", "per_sample"), [(12, False), (12, True), (70, True)])
def test_holes_hide_what_stands_there(short, N, per_sample):
    x, w, gamma, beta, g = inputs(2, 2, N, per_sample)
    w[:, 2 : N // 2] = 0
    w[:, -1] = 0
    w = w / w.sum(1, keepdim=True)
    x[:, :, 2:6], x[:, :, -1] = float("nan"), 9.97e36
    x[1, :, 4] = -float("inf")
    compare((x, w, gamma, beta, g, 2), holes=True)


def test_absent_tiles_do_not_enter(short):
    x, w, gamma, beta, g = inputs(1, 1, 300)
    w[:, 10:290] = 0
    compare((x, w / w.sum(), gamma, beta, g, 1), holes=True)
    y, dx, *_ = run(x, torch.zeros_like(w), gamma, beta, g, 1, holes=True)  # nothing there: finite, without meaning
    assert torch.isfinite(y).all()
    assert torch.isfinite(dx).all()


@pytest.mark.parametrize(("bad", "N"), [(float("nan"), 70), (float("inf"), 12), (-float("inf"), 70)])
def test_a_bad_sample_that_is_there_spoils_its_row_only(short, bad, N):
    x, w, _, _, g = inputs(2, 2, N, affine=False)
    clean = run(x, w, None, None, g, 2)
    x[1, 0, 5] = bad
    y, dx, *_ = run(x, w, None, None, g, 2)
    assert torch.isnan(y[1, 0]).all()
    assert torch.equal(y[0], clean[0][0])
    assert torch.equal(y[1, 1], clean[0][1, 1])
    assert torch.equal(dx[0], clean[1][0])


@pytest.mark.parametrize(("value", "N"), [(0.1, 12), (12345.678, 70), (-1e8, 70)])
def test_constant_field_gives_exactly_beta(short, value, N):
    _, w, gamma, beta, g = inputs(1, 2, N)
    y, *_ = run(torch.full((1, 2, N), value), w, gamma, beta, g, 1)
    assert torch.equal(y, beta[:, None].expand(1, 2, N))


def test_empty_batch():
    x, w, gamma, beta, g = inputs(0, 3, 5)
    y, dx, dgamma, dbeta, dw = run(x, w, gamma, beta, g, 1)
    assert y.shape == dx.shape == x.shape
    assert float(dgamma.abs().sum() + dbeta.abs().sum() + dw.abs().sum()) == 0


def counted(N, groups, wrt_w):
    """Reads and writes per number of x, g, y and dx; w's reads per row."""
    x, w, gamma, beta, g = inputs(1, 4, N)
    y, dx, stats = torch.empty_like(x), torch.empty_like(x), torch.empty(3, 1, groups)
    given = Inputs(x, w, gamma, beta, groups)
    with traffic(x=x, y=y) as forward:
        launch.forward(given, y, stats)
    with traffic(x=x, g=g, dx=dx) as backward:
        launch.backward(given, g, stats, dx, wrt_w)
    return [{k: [n / x.numel() for n in v] for k, v in counts.items()} for counts in (forward, backward)]


@pytest.mark.parametrize("wrt_w", [False, True])
@pytest.mark.parametrize("N", [8, 13])
def test_traffic_of_rows_on_chip(N, wrt_w):
    """One read and one write of everything, whatever is asked for."""
    assert counted(N, 1, wrt_w) == [{"x": [1, 0], "y": [0, 1]}, {"x": [1, 0], "g": [1, 0], "dx": [0, 1]}]


@pytest.mark.parametrize(("groups", "wrt_w"), [(1, False), (1, True), (4, False), (4, True)])
@pytest.mark.parametrize("N", [91])
def test_traffic_of_rows_in_tiles(short, N, groups, wrt_w):
    """Two reads and one write; the weights' gradient costs no further sweep."""
    assert counted(N, groups, wrt_w) == [{"x": [2, 0], "y": [0, 1]}, {"x": [2, 0], "g": [2, 0], "dx": [0, 1]}]


class Calls(TorchDispatchMode):
    """The names of all calls that reach a device."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func._schema.name.removeprefix("aten::"))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("N", [8, 150])
def test_calls_can_be_recorded_into_a_graph(short, monkeypatch, N):
    """Allocations whose size follows from shapes, sums of partial results, and launches: no value is looked at."""
    launched = []
    monkeypatch.setattr(launch, "_run", lambda program, count, *rest, **options: launched.append((program, count)))
    seen = []
    for seed in (0, 1):
        case = inputs(2, 4, N)
        torch.manual_seed(seed)
        launched.clear()
        with Calls() as calls:
            run(torch.randn_like(case[0]), *case[1:], 2, holes=True)
        seen.append((calls.names, list(launched)))
    names = set(seen[0][0]) - {"randn_like", "select", "normal_"}
    assert names <= {"empty", "empty_like", "new_empty", "detach", "sum", "unsqueeze", "contiguous"}, names
    assert seen[0] == seen[1]
    assert launched


def test_offsets_stay_below_two_to_the_31():
    """A tile of several channels spans less than 2³¹ numbers; longer rows have one channel per tile."""
    for N in (2**15 - 1, 2**20 + 1, 2**31 - 1):
        tile = tiles.part_of_row(512, N)
        assert tile.channels == 1 or tile.channels * N < 2**31
        assert tile.channels * tile.samples <= tiles.TILE
    tile, _ = launch.channels_together(1, 512, 2**25 + 1)
    assert tile.channels * (2**25 + 1) < 2**31 + 2**25 * 64


@pytest.mark.parametrize("N", [12, 70])
def test_layers_hand_holes_and_learned_weights_to_the_kernel(short, N):
    """No sweep before the kernel takes fill values out, none after it makes the weights' gradient."""
    x, w, *_ = inputs(2, 4, N)
    w[:, 3:6] = 0
    x[:, :, 4] = float("nan")
    results = []
    for kernel in ("triton", "torch"):
        layer, leaf, weights = QuadNorm(4), x.clone().requires_grad_(), w[0].clone().requires_grad_()
        with use_kernel(kernel), traffic(x=leaf) as counts:
            y = layer(leaf, weights=weights)
            (y * torch.arange(N)).sum().backward()
        results.append((y.detach(), leaf.grad, weights.grad))
        if kernel == "triton":
            assert counts["x"][0] == (2 if N == 12 else 4) * x.numel()  # the caller's own tensor, forward and backward
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-4)
    assert (results[0][1][:, :, 4] == 0).all()


def test_a_field_without_samples_is_not_for_the_kernel():
    assert choice.serves(torch.ones(1, 1, 1), "triton")
    assert not choice.serves(torch.ones(0, 1, 4), "triton")
