"""The plain module of one grid, exported and traced; adapted models saved and read back."""

import copy
import json
import math
import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

import quadnorm as qn
from quadnorm.adapt.graphs.capture import Obstacle
from quadnorm.adapt.shares import FieldShares, OnGrid
from tests.adapt.models import Attention, ClassicFNO, field

WAYS = ("anchor", "extend", "at_native", "transfer")
# One output field of one channel: a part of everything that transfer can add to the native run.
EVERYTHING = FieldShares(((0.2,), (0.1,)), (0.6,), (0.4,), (0.7, 0.3))


def adapted_by(way, model, n=9):
    if way == "transfer":
        return transferred(model, n)
    return getattr(qn, way)(model, (n, n), "endpoint", **({"force": True} if way == "anchor" else {}))


def transferred(model, n=9, *grids):
    """With shares of everything on ``grids``, by default 15²; some of the nodes lie outside those of training."""
    x = field(n, n, batch=4, placement="cell")
    moved = qn.transfer(model, (n, n), "cell", data=(x, model(x).detach() + 0.1 * x[:, :1].square()))
    moved.report.grids |= {(m, m): OnGrid((EVERYTHING,), (), 4) for m in grids or (15,)}
    return moved


def gap(a, b):
    return float((a - b).detach().norm() / b.detach().norm())


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("make", [lambda: ClassicFNO(pad=2, layers=1), lambda: Attention("sdpa")])
def test_the_plain_module_of_one_grid(way, make):
    model = make()
    adapted = adapted_by(way, model)
    plain = adapted.at(15)
    names = [str(n.target) for n in plain.graph.nodes]
    assert not any("fft" in name or "complex" in name for name in names)
    assert list(plain.state_dict()) == list(model.state_dict())
    assert all(a is b for a, b in zip(plain.parameters(), adapted.model.parameters(), strict=True))
    x = field(15, 15, batch=3)
    others = [plain, copy.deepcopy(plain), pickle.loads(pickle.dumps(plain))]
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # PyTorch advises export instead
        others.append(torch.jit.trace(plain, x))
    others.append(torch.compile(plain, backend="eager"))
    batch = torch.export.Dim("batch", min=1, max=64)
    others.append(torch.export.export(plain, (x[:2],), dynamic_shapes=({0: batch},)).module())
    assert all(gap(run(x), adapted(x)) < 1e-5 for run in others)


class Tokens(nn.Sequential):
    """(B, N, C) → (B, N, C), attention over all samples."""

    def __init__(self):
        super().__init__(nn.Linear(2, 4), nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), nn.Linear(4, 1))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("layout", ["first", "last", "tokens"])
def test_a_model_that_asks_nothing_of_its_batch_has_one_module_for_all(layout, way):
    """No comparison of our own, such as that of the batch with the number of samples, may become a condition."""
    norm = nn.Sequential(nn.Conv1d(2, 4, 1), nn.GroupNorm(1, 4), nn.GELU(), nn.Conv1d(4, 1, 1))
    model, native, grid = {
        "first": (norm, (4,), (7,)),
        "last": (nn.Sequential(nn.Linear(2, 4), nn.Softmax(1), nn.Linear(4, 1)), (4,), (7,)),
        "tokens": (Tokens().eval(), (3, 3), (5, 7)),
    }[layout]
    n = math.prod(native)
    example = torch.randn(3, 2, n) if layout == "first" else torch.randn(3, n, 2)
    options = {"data": (example, model(example).detach())} if way == "transfer" else {"example": example}
    options |= {"force": True} if way == "anchor" else {}
    adapted = getattr(qn, way)(model, native, "endpoint", layout=layout, **options)
    plain = adapted.at(grid)
    n = math.prod(grid)
    for batch in (2, 5, 7, 35):  # 7 samples of one axis, 35 of both
        x = torch.randn(batch, 2, n) if layout == "first" else torch.randn(batch, n, 2)
        expected = adapted(x, **({"grid": grid} if layout == "tokens" else {}))
        assert gap(plain(x), expected) < 1e-5


@pytest.mark.parametrize("name", ["fft", "rfft", "fft2", "rfft2", "fftn", "rfftn"])
@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
def test_transforms_in_real_pairs_are_those_of_torch(name, norm):
    class Filter(nn.Module):
        def __init__(self):
            super().__init__()
            self.kernel = nn.Parameter(torch.randn(3, dtype=torch.cfloat))

        def forward(self, x):
            dims = {"dim": (-2, -1)} if name.endswith("n") else {}
            spectrum = getattr(torch.fft, name)(x, norm=norm, **dims)
            size = {"s": x.shape[-2:]} if name[-1] in "2n" else {"n": x.shape[-1]}
            back = getattr(torch.fft, f"i{name}")(
                spectrum * self.kernel[1] + 0.5 * spectrum.conj(), norm=norm, **size, **dims
            )
            y = back if back.is_floating_point() else back.real + back.imag
            return y - y.mean((-2, -1), keepdim=True)

    adapted = qn.extend(Filter(), (9, 8), "endpoint", example=torch.randn(1, 1, 9, 8))
    plain, x = adapted.at((17, 15)), torch.randn(2, 1, 17, 15)
    assert not any("fft" in str(n.target) for n in plain.graph.nodes)
    assert gap(plain(x), adapted(x)) < 1e-5


def turned_in_place(z):
    z = z * 1
    old = z + 1
    z *= 1j
    return z + old


def part_turned_in_place(z):
    z = z.clone()
    z[..., :3] *= 0.5 + 1j
    return z + 1


def sum_turned_in_place(z):
    total = z + z.real
    total[..., :3] *= 1j
    return z + total


def doubled_through_a_view(z):
    z = z.clone()
    torch.view_as_real(z).mul_(2.0)
    return z


def padded_with_ones(z):
    return torch.nn.functional.pad(z[..., :4], (1, 0), value=1.0)


@pytest.mark.parametrize("known", [lambda z: 1 - z, turned_in_place, part_turned_in_place, sum_turned_in_place])
def test_complex_arithmetic_in_real_pairs_is_that_of_torch(known):
    plain = compared_on_one_grid(known)
    assert not any("fft" in str(n.target) for n in plain.graph.nodes)


@pytest.mark.parametrize("unknown", [doubled_through_a_view, padded_with_ones])
def test_what_real_pairs_cannot_say_stays_complex(unknown):
    plain = compared_on_one_grid(unknown)
    assert any("fft" in str(n.target) for n in plain.graph.nodes)
    assert not any("pair" in name for name, _ in plain.named_buffers())


def test_absolute_values_in_real_pairs_have_the_derivative_of_complex_ones():
    """It is 0 where the number is 0, as for waves that a field does not have; that of a root is infinite."""
    plain = compared_on_one_grid(lambda z: z + z.abs())
    assert not any("fft" in str(n.target) for n in plain.graph.nodes)
    x = torch.zeros(1, 1, 17, requires_grad=True)
    (found,) = torch.autograd.grad(plain(x).square().sum() + plain(x).sum(), x)
    assert torch.isfinite(found).all()


def test_real_pairs_that_give_other_numbers_are_refused(monkeypatch):
    def taxicab(self, re, im):
        return self._do(torch.ops.aten.add.Tensor, *(self._do(torch.ops.aten.abs.default, p) for p in (re, im)))

    monkeypatch.setattr("quadnorm.adapt.graphs.real_pairs._Rewriter._length", taxicab)
    plain = compared_on_one_grid(lambda z: z + z.abs())  # compared with the adapted model
    assert any("fft" in str(n.target) for n in plain.graph.nodes)


def compared_on_one_grid(function):
    """The plain module of a model that changes coefficients, compared with the adapted model."""

    class Filter(nn.Module):
        def forward(self, x):
            return torch.fft.irfft(function(torch.fft.rfft(x, norm="forward")[..., :5]), n=9, norm="forward")

    x = torch.randn(2, 1, 17)
    adapted = qn.at_native(Filter(), (9,), "endpoint", example=torch.randn(1, 1, 9))
    plain = adapted.at(17)
    assert gap(plain(x), adapted(x)) < 1e-5
    return plain


def test_a_module_for_one_batch_where_the_model_asks_for_it():
    class Branch(nn.Module):
        def forward(self, x):
            m = x.mean((-2, -1), keepdim=True)
            return x - m if x.shape[0] <= 8 else x + m

    adapted = qn.extend(Branch(), (9, 9), "endpoint", layout="first", example=field(9, 9))
    with pytest.raises(ValueError, match="pass batch="):
        adapted.at(15)
    x = field(15, 15, batch=12)
    assert gap(adapted.at(15, batch=12)(x), adapted(x)) < 1e-6


@pytest.mark.parametrize("way", WAYS)
def test_an_adapted_model_is_read_back_with_its_model(way, tmp_path):
    model = ClassicFNO(layers=1)
    adapted, path, x = adapted_by(way, model), tmp_path / "adapted.json", field(15, 15)
    adapted.save(path)
    again = qn.load_adapted(path, model)
    assert type(again) is type(adapted)
    assert torch.equal(again(x), adapted(x))
    with pytest.raises(ValueError, match=r"another model .*other shapes: .*lift.weight \[8, 3\] → \[6, 3\]"):
        qn.load_adapted(path, ClassicFNO(layers=1, width=6))
    with pytest.raises(ValueError, match=r"name it adapted\.json"):
        adapted.save(tmp_path / "adapted.pt")
    saved = json.loads(path.read_text())
    path.write_text(json.dumps({**saved, "way": "extent"}))
    with pytest.raises(ValueError, match="did you mean"):
        qn.load_adapted(path, model)
    path.write_text("weights")
    with pytest.raises(ValueError, match="is not JSON"):
        qn.load_adapted(path, model)


def test_saved_estimates_are_those_of_the_data(tmp_path):
    """What the pairs have told is in the file, so that a grid that is new gets the same shares; the data is not."""
    model = ClassicFNO(layers=1)
    moved, path, x = transferred(model), tmp_path / "adapted.json", field(17, 17, batch=3, placement="cell")
    moved.save(path)
    again = qn.load_adapted(path, model)
    assert again.estimate(x) == moved.estimate(x)
    assert str(again.report) == str(moved.report)
    assert path.stat().st_size < 20_000
    with pytest.raises(ValueError, match=r"nothing is known yet of inputs at 21×21; pass example="):
        again.at(21)
    assert moved.at(21)(field(21, 21)).shape == (1, 1, 21, 21)


class Named(nn.Module):
    """Takes its field by name, so that a file cannot say what an example looks like."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv1d(1, 8, 1), nn.GroupNorm(1, 8), nn.GELU(), nn.Conv1d(8, 1, 1))

    def forward(self, *, x):
        return self.layers(x)


@pytest.mark.parametrize("plain", [False, True])
def test_grids_of_a_file_are_served_without_an_example(plain, tmp_path):
    """The network's own detail is found again with the first inputs."""
    model, path = Named().eval(), tmp_path / "adapted.json"
    x = {n: torch.linspace(0, 3, n).mul(torch.arange(1, 7)[:, None]).sin()[:, None] for n in (9, 33)}
    moved = qn.transfer(model, 9, "endpoint", data=({"x": x[9]}, model(x=x[9]).detach()))
    expected = moved(x=x[33])
    assert moved.report.grids[(33,)].evaluates
    moved.save(path)
    again = qn.load_adapted(path, model)
    found = again.at(33, example={"x": x[33]})(x[33]) if plain else again(x=x[33])
    torch.testing.assert_close(found, expected)
    assert str(again.report) == str(moved.report)


def test_reading_a_file_draws_no_random_numbers(tmp_path):
    model, path = nn.Sequential(nn.Conv1d(1, 4, 1), nn.GroupNorm(1, 4)), tmp_path / "adapted.json"
    qn.extend(model, 9, "endpoint").save(path)
    state = torch.get_rng_state()
    qn.load_adapted(path, model)
    assert torch.equal(torch.get_rng_state(), state)


def test_transferred_models_in_threads_copied_and_pickled():
    """The same bits, on grids that graphs are first captured for while others run."""
    grids = (11, 15, 18)
    xs = [field(m, m, batch=2, placement="cell") for m in grids for _ in range(3)]
    model = Normed(nn.Conv2d(1, 4, 1), nn.GroupNorm(1, 4), nn.GELU(), nn.Conv2d(4, 1, 1))
    serial, parallel = transferred(model, 9, *grids), transferred(model, 9, *grids)
    expected = [serial(x).detach() for x in xs]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda x: parallel(x).detach(), xs))
    for other in (copy.deepcopy(serial), pickle.loads(pickle.dumps(serial))):
        assert list(other.state_dict()) == list(model.state_dict())
        found += [other(x).detach() for x in xs[::3]]
    assert all(torch.equal(a, b) for a, b in zip(found, expected + 2 * expected[::3], strict=True))


class Normed(nn.Sequential):
    """Layers in a row; with ``reads`` it looks at values of its input, so that no graph can be had."""

    reads = False

    def forward(self, x):
        return super().forward(x) * (float(x.mean()) < 1e9 if self.reads else 1.0)


def test_a_transferred_model_without_a_graph():
    """A model that reads its values runs as the same model that does not, on grids that need different parts of it."""
    model = Normed(nn.Conv2d(1, 4, 1), nn.GroupNorm(1, 4), nn.GELU(), nn.Conv2d(4, 1, 1)).eval()
    other = copy.deepcopy(model)
    other.reads = True
    plain, moved = (transferred(m, 9, 15, 18) for m in (model, other))
    for each in (moved, plain):
        each.report.grids[18, 18] = OnGrid((FieldShares(((0.0,), (0.0,)), (0.5,), (0.0,), (0.0, 0.0)),))
    for m in (18, 15, 18):
        x = field(m, m, batch=2, placement="cell")
        assert gap(moved(x), plain(x)) < 1e-6
    assert list(moved.obstacles) == [Obstacle.VALUES]
    assert plain.obstacles == {}


def test_the_anchored_runs_of_a_transferred_model_follow_its_weights():
    """Parameters and buffers are the model's of now, those that it was trained to after it was transferred."""
    model = nn.Sequential(nn.Conv2d(1, 4, 1), nn.BatchNorm2d(4), nn.GroupNorm(1, 4), nn.Conv2d(4, 1, 1)).eval()
    moved, x = transferred(model), field(15, 15, batch=2, placement="cell")
    before = moved(x)
    with torch.no_grad():
        model[0].weight.mul_(-0.5)
        model[0].bias.add_(1)
        model[1].running_var.mul_(2)
    assert gap(moved(x), before) > 1e-2
    assert gap(moved(x), transferred(model)(x)) < 1e-6


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*LeafSpec.*:FutureWarning")  # PyTorch's exporter, about its own doing
@pytest.mark.parametrize("way", WAYS)
def test_onnx_of_a_classic_fno(way, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    plain = adapted_by(way, ClassicFNO(layers=1).eval()).at(15)
    sizes = ({0: torch.export.Dim("batch")},)
    torch.onnx.export(plain, (field(15, 15, batch=2),), tmp_path / "m.onnx", dynamo=True, dynamic_shapes=sizes)
    session = runtime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    x = field(15, 15, batch=5)
    (y,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    assert gap(torch.from_numpy(y), plain(x)) < 1e-5
