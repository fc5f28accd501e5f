"""One module for every grid: the model at its training grid, elsewhere no worse than the ways it is made of."""

import copy

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

import quadnorm as qn
from quadnorm.operators import FNO
from tests.adapt.models import field


class Counted(nn.Module):
    """Counts the runs of a module, by grid."""

    def __init__(self, inner):
        super().__init__()
        self.inner, self.runs = inner, []

    def forward(self, x):
        if torch.is_grad_enabled():
            self.runs.append(tuple(x.shape[2:]))
        return self.inner(x)


def small(d=1, out=1):
    torch.manual_seed(0)
    conv = nn.Conv1d if d == 1 else nn.Conv2d
    return nn.Sequential(conv(1, 8, 1), nn.GroupNorm(1, 8), nn.GELU(), conv(8, out, 1))


def pairs(n, count=12, d=1, wave=0.0):
    """Smooth x and y = x + x² of its mean square, on the endpoint grid."""
    x = field(*[n] * d, batch=count)
    r = torch.arange(n, dtype=torch.float64) / (n - 1)
    x = x + (wave * torch.sin(32 * torch.pi * r)).float()
    return x, x + 0.1 * x.square()


def test_the_model_itself_at_the_training_grid():
    model = FNO(width=6, modes=4, layers=2)
    x, y = pairs(17, d=2)
    moved = qn.transfer(model, 17, "endpoint", data=(x, y))
    assert torch.equal(moved(x), model(x))


class PointwiseNoise(nn.Module):
    """y = x + x²/10 at every node, and noise of the model's own in the finest scale: (−1)^j with a grid's size."""

    def __init__(self, noise):
        super().__init__()
        self.noise = nn.Parameter(torch.tensor(noise))

    def forward(self, x):
        sign = 1 - 2 * (torch.arange(x.shape[-1], device=x.device) % 2)
        mean = x.mean(-1, keepdim=True)
        return x + 0.1 * x.square() + self.noise * (1 + mean - mean) * sign


def error(y, truth):
    return ((y - truth).norm() / truth.norm()).item()


def test_new_detail_of_the_input_is_shown():
    """y = f(x) at every node, and a wave that the training grid cannot hold: native runs cannot show it."""
    model = nn.Sequential(nn.Conv1d(1, 32, 1), nn.GELU(), nn.GroupNorm(1, 32), nn.Conv1d(32, 1, 1))
    torch.manual_seed(1)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    x0, y0 = pairs(17, 32)
    for _ in range(150):
        loss = (model(x0) - y0).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    moved = qn.transfer(model, 17, "endpoint", data=(x0, y0))
    x, y = pairs(129, 6, wave=0.3)
    with torch.no_grad():
        got, native = error(moved(x), y), error(qn.at_native(model, (17,), "endpoint")(x), y)
        best = error(qn.extend(model, 17, "endpoint")(x), y)
    assert got < 1.1 * best
    assert got < 0.5 * native


def test_noise_of_the_native_output_is_taken_out():
    """Alternating signs are no smooth target's: without them the carried output is nearly right."""
    model = PointwiseNoise(0.2)
    x0, y0 = pairs(17)
    moved = qn.transfer(model, 17, "endpoint", data=(x0, y0))
    x, y = pairs(33)
    with torch.no_grad():
        assert error(moved(x), y) < 0.4 * error(qn.at_native(model, (17,), "endpoint")(x), y)
        assert torch.equal(moved(x0), model(x0))


def test_smooth_data_costs_the_native_run_alone():
    model = Counted(small())
    x0, _ = pairs(17)
    with torch.no_grad():
        y0 = model(x0)
    moved = qn.transfer(model, 17, "endpoint", data=(x0, y0 + 0.1))
    x, _ = pairs(33)
    moved(x)
    model.runs.clear()
    moved(x)
    assert model.runs == [(17,)]
    assert "left out" in str(moved.report)


def test_estimates_are_made_once_per_grid_and_renewed_on_request():
    model = small()
    x0, y0 = pairs(17)
    moved = qn.transfer(model, 17, "endpoint", data=(x0, y0))
    assert "no other grid has been used yet" in str(moved.report)
    first = moved(pairs(33)[0])
    kept = moved.report.grids[(33,)]
    moved(pairs(33, wave=0.3)[0])
    assert moved.report.grids[(33,)] is kept
    assert torch.equal(moved(pairs(33)[0]), first)
    assert moved.estimate(pairs(33, wave=0.3)[0]) is not kept
    assert moved.estimate(x0) is None
    assert "on 33 (estimated with 12 inputs)" in str(moved.report)


def test_runs_leave_no_trace_and_gradients_arrive():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv1d(1, 4, 1), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Conv1d(4, 1, 1)).train()
    x0, y0 = pairs(17)
    before, state = copy.deepcopy(model.state_dict()), torch.random.get_rng_state()
    moved = qn.transfer(model, 17, "endpoint", data=(x0, y0))
    moved.estimate(pairs(33)[0])
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(m.training for m in model.modules())
    model.eval()
    moved(pairs(33)[0]).sum().backward()
    assert all(p.grad is not None for p in model.parameters())
    assert list(moved.state_dict()) == list(model.state_dict())


def test_no_worse_than_native_where_the_model_cannot_be_adapted():
    """A dense layer over all samples runs at its training grid only."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(17, 17), nn.Unflatten(1, (1, 17)))
    x0, y0 = pairs(17)
    moved = qn.transfer(model, (17,), "endpoint", data=(x0, y0))
    x, _ = pairs(33)
    assert moved(x).shape == x.shape
    assert "refuses" in str(moved.report)


def test_without_data_the_report_says_what_is_assumed():
    moved = qn.transfer(small(), 17, "endpoint")
    x, _ = pairs(33)
    assert moved(x).shape == x.shape
    assert "no pairs were given" in str(moved.report)


class Several(nn.Module):
    """Two inputs and a number for each sample; a dict of a field of two channels and a value."""

    def forward(self, x, more, time):
        u = torch.cat([x, more], 1) * time.view(-1, 1, 1, 1)
        return {"u": u / (1 + u.square().mean((-2, -1), keepdim=True)), "level": u.mean((1, 2, 3))}


def test_several_inputs_outputs_and_placements():
    model, placement = Several(), ("cell", "periodic")
    x0 = field(9, 8, batch=6)
    time = torch.linspace(1, 2, 6)
    out = model(x0, 2 * x0, time)
    moved = qn.transfer(model, (9, 8), placement, data=((x0, 2 * x0, time), out))
    x = field(18, 16, batch=6)
    y = moved(x, 2 * x, time)
    assert y["u"].shape == (6, 2, 18, 16)
    assert y["level"].shape == (6,)
    same = moved(x0, 2 * x0, time)
    assert all(torch.equal(same[k], out[k]) for k in out)


@pytest.mark.parametrize("layout", ["last", "tokens"])
def test_other_layouts_give_the_same_numbers(layout):
    """Channels last, and samples in a row."""
    torch.manual_seed(0)
    first = nn.Sequential(nn.Conv2d(1, 4, 1), nn.GELU(), nn.Conv2d(4, 1, 1))
    line = nn.Sequential(nn.Linear(1, 4), nn.GELU(), nn.Linear(4, 1))
    for a, b in zip(first, line, strict=True):
        if isinstance(b, nn.Linear):
            b.weight.data.copy_(a.weight.data[..., 0, 0])
            b.bias.data.copy_(a.bias.data)
    x0, y0 = pairs(9, d=2)
    x, _ = pairs(17, d=2)

    def there(t):
        t = t.movedim(1, -1)
        return t if layout == "last" else t.flatten(1, 2)

    options = {"grid": (17, 17)} if layout == "tokens" else {}
    a = qn.transfer(first, 9, "endpoint", data=(x0, y0))(x)
    b = qn.transfer(line, (9, 9), "endpoint", data=(there(x0), there(y0)), layout=layout)(there(x), **options)
    assert torch.allclose(there(a), b, atol=1e-5)


def test_piecewise_constant_inputs_are_restricted_to_their_own_values():
    r = torch.linspace(0, 1, 17)
    cuts = torch.linspace(0.3, 0.7, 12).view(-1, 1, 1)
    x0 = (r > cuts).float()
    moved = qn.transfer(small(), 17, "endpoint", data=(x0, x0))
    assert moved.restrict == "nearest"
    assert qn.transfer(small(), 17, "endpoint", data=pairs(17)).restrict == "cubic"


@pytest.mark.parametrize(
    ("stride", "how"), [(1, "stencils at the training grid's spacing"), (2, "runs on shifted training grids")]
)
def test_models_of_stencils_take_their_detail_at_the_training_spacing(stride, how):
    first = nn.Conv1d(1, 4, 3, stride, padding=1, padding_mode="circular")
    model = nn.Sequential(first, nn.GELU(), nn.Upsample(scale_factor=stride), nn.Conv1d(4, 1, 1))
    model = model if stride > 1 else nn.Sequential(first, nn.GELU(), model[3])
    x0 = field(16, batch=8, placement="periodic")
    moved = qn.transfer(model, 16, "periodic", data=(x0, model(x0).detach()))
    assert how in str(moved.report)
    assert moved(field(32, batch=8, placement="periodic")).shape == (8, 1, 32)


def test_what_a_shift_changes_is_measured_for_shifted_runs():
    """A mean over every two samples, put back in both: shifted by one sample, other pairs are averaged."""
    model = nn.Sequential(nn.AvgPool1d(2), nn.Upsample(scale_factor=2)).double()
    x0 = field(16, batch=8, placement="periodic").double()
    moved = qn.transfer(model, 16, "periodic", data=(x0, x0))
    x = field(32, batch=8, placement="periodic").double()
    moved(x)
    y = x[..., ::2]
    blend = (model(y.roll(-1, -1)).roll(1, -1) + model(y.roll(1, -1)).roll(-1, -1)) / 2 - model(y)
    energy = (blend.square().mean(-1) / model(y).square().mean(-1)).mean().item()
    assert moved.report.grids[(32,)].shares[0].facts["moved"][0] == pytest.approx(energy * 0.25**2 / 2, rel=1e-3)
    assert "come from where the training grid lies" in str(moved.report)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (torch.zeros(2, 1, 17), "a pair"),
        ((torch.zeros(0, 1, 17), torch.zeros(0, 1, 17)), "no sample"),
        ((torch.randn(4, 1, 17), torch.randn(3, 1, 17)), "4 samples"),
        ((torch.randn(4, 1, 17), torch.randn(4, 2, 17)), "targets are"),
        ((torch.randn(4, 1, 17), torch.full((4, 1, 17), torch.nan)), "NaN"),
        ((torch.randn(4, 1, 19), torch.randn(4, 1, 19)), "training resolution"),
    ],
)
def test_wrong_data_is_refused(data, message):
    with pytest.raises(ValueError, match=message):
        qn.transfer(small(), 17, "endpoint", data=data)


@pytest.mark.parametrize("form", ["arrays", "data set", "loader", "loader of dicts"])
def test_pairs_in_the_forms_that_people_have(form):
    model, (x, y) = small(), pairs(17)
    given = {
        "arrays": (x.double().numpy(), y.double().numpy()),
        "data set": TensorDataset(x, y),
        "loader": DataLoader(TensorDataset(x, y), batch_size=5),
        "loader of dicts": DataLoader([{"x": a, "y": b} for a, b in zip(x, y, strict=True)], batch_size=5),
    }[form]
    new = field(33, batch=2)
    assert torch.equal(
        qn.transfer(model, 17, "endpoint", data=given)(new), qn.transfer(model, 17, "endpoint", data=(x, y))(new)
    )


def test_no_more_of_a_loader_is_read_than_is_used():
    x, y = pairs(17)
    read = []

    class Long(Dataset):
        def __len__(self):
            return 10**6

        def __getitem__(self, k):
            read.append(k)
            return x[k % 12], y[k % 12]

    qn.transfer(small(), 17, "endpoint", data=DataLoader(Long(), batch_size=16))
    assert len(read) == 128


def test_placement_is_never_assumed():
    """A model that does not say where its samples lie is refused, in words that a user knows; one that does is not."""
    with pytest.raises(ValueError, match=r"which line made your grid\? linspace\(0, 1, n\): 'endpoint'"):
        qn.transfer(small(), 17, data=pairs(17))
    assert qn.transfer(FNO(width=4, modes=3, layers=1, placement="cell"), 9).placements == ("cell", "cell")


def test_wrong_arguments_are_refused():
    with pytest.raises(TypeError, match=r"nn\.Module"):
        qn.transfer(torch.sin, 17, "endpoint")
    with pytest.raises(ValueError, match="cubic"):
        qn.transfer(small(), 17, "endpoint", restrict="cubik")
