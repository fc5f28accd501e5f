"""What a call is given belongs to that call: numbers, batches, branches, labels, fields computed from parameters."""

import copy

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import quadnorm as qn
from quadnorm.adapt.calls.planning.counts import Count, counts_of
from quadnorm.carry.grids import carry

WAYS = [qn.anchor, qn.extend]
N, FINE = (9, 9), 17


def field(n: int, batch: int = 1) -> torch.Tensor:
    r = torch.linspace(0, 1, n)
    x = torch.sin(2 * r)[:, None] * r.exp()
    return torch.stack([x + k / 4 for k in range(batch)])[:, None]


class Pointwise(nn.Module):
    def __init__(self, form):
        super().__init__()
        self.c, self.scale, self.form = nn.Conv2d(1, 1, 1), 1.0, form

    def forward(self, x, *more):
        return self.form(self, self.c(x), x, *more)


def mean(h):
    return h.mean((-2, -1), keepdim=True)


FORMS = {
    "argument": lambda m, h, x, dt=0.1: x + dt * (h - mean(h)),
    "attribute": lambda m, h, x, dt=0.1: (h - mean(h)) * m.scale,
    "power": lambda m, h, x, dt=0.1: (h - mean(h) + 9) ** dt,
    "alpha": lambda m, h, x, dt=0.1: x.add(h - mean(h), alpha=dt),
    "maximum": lambda m, h, x, dt=0.1: x / x.abs().max().item() - mean(h),
    "elements": lambda m, h, x, dt=0.1: h - h.sum() / h.numel(),
    "root": lambda m, h, x, dt=0.1: h / h.norm() * h.numel() ** 0.5,
    "rows": lambda m, h, x, dt=0.1: x - h.reshape(-1).sum() / h.reshape(-1, 1).shape[0],
    "steps": lambda m, h, x, dt=0.1: (h - mean(h)) / (h.shape[-1] - 1),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("form", FORMS)
def test_a_used_model_does_what_a_new_one_does(way, form):
    """Another number, attribute, batch or scale of the data than in the first call."""
    torch.manual_seed(0)
    model = Pointwise(FORMS[form])
    used = way(model, N)
    used(field(FINE))
    for m in (model, used.model):
        m.scale = 2.5
    x = 3 * field(FINE, batch=4)
    y = used(x, 0.7)
    torch.testing.assert_close(y, way(model, N)(x, 0.7), rtol=1e-5, atol=1e-6)
    if form != "steps":  # 1/(n − 1) is the training grid's on every grid
        plain = model(x, 0.7)
        assert (y - plain).norm() < 0.06 * plain.norm()


def test_numbers_that_move():
    grid, refined = (9, 5), (17, 9)
    found = counts_of((9 * 5 * 4, 0.5, 8, 1 / 9, 7), [(17 * 5 * 4, 0.5, 16, 1 / 17, 9), (9 * 9 * 4, 0.5, 8, 1 / 9, 7)],
                   grid, refined)  # fmt: skip
    elements, fixed, steps, inverse, odd = found
    assert fixed is None
    assert (elements.powers, steps.powers, inverse.powers) == (
        ((0, 1.0), (0, 1.0)), ((1, 1.0), (0, 0.0)), ((0, -1.0), (0, 0.0))
    )  # fmt: skip
    assert odd == Count(7, None)
    now = elements.on_training_grid(33 * 17 * 12, grid, (33, 17))
    assert isinstance(now, int)
    assert now == 9 * 5 * 12
    assert steps.on_training_grid(32, grid, (33, 17)) == 8


@pytest.mark.parametrize("way", WAYS)
def test_branches_and_steps_may_change(way):
    class Loop(nn.Module):
        def __init__(self):
            super().__init__()
            self.c = nn.Conv2d(1, 1, 1)

        def forward(self, x, steps=2, positive=False):
            for _ in range(steps):
                x = x + self.c(x) - mean(x)
            return torch.relu(x) if positive else x

    torch.manual_seed(0)
    model = Loop()
    used = way(model, N)
    for steps, positive in ((2, False), (3, False), (1, True), (2, False)):
        y, plain = used(field(FINE), steps, positive), model(field(FINE), steps, positive)
        assert (y - plain).norm() < 0.03 * plain.norm()


class Labelled(nn.Module):
    def __init__(self):
        super().__init__()
        self.e, self.n, self.d = nn.Embedding(3, 4), nn.GroupNorm(1, 4), nn.Conv2d(4, 1, 1)

    def forward(self, k):
        return self.d(self.n(self.e(k[:, 0]).movedim(-1, 1)).tanh())


def test_labels_are_restricted_to_the_nearest_sample():
    model, k = Labelled(), (2.9 * torch.rand(1, 1, FINE, FINE)).long()
    native = model(k[..., ::2, ::2])
    extended = qn.extend(model, N, example=k[..., ::2, ::2])
    torch.testing.assert_close(extended(k)[..., ::2, ::2], native)
    assert not torch.allclose(extended(k), model(k), atol=1e-3)
    torch.testing.assert_close(qn.at_native(model, N, interpolate="nearest")(k)[..., ::2, ::2], native)
    assert carry(torch.tensor([0, 3, 3, 0, 3]), (4,)).tolist() == [0, 3, 0, 3]
    assert carry(torch.tensor([True, False, True]), (5,)).dtype == torch.bool


def test_complex_fields_keep_their_imaginary_parts():
    class Waves(nn.Module):
        def __init__(self):
            super().__init__()
            self.c = nn.Conv1d(1, 2, 1)

        def forward(self, x):
            y = self.c(x)
            return torch.complex(y[:, :1], y[:, 1:])

    model, x = Waves(), torch.rand(1, 1, FINE)
    torch.testing.assert_close(qn.at_native(model, 9)(x)[..., ::2], model(x[..., ::2]))


class Placed(nn.Module):
    """Positions j/n through a network of their own."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Conv2d(1, 8, 1), nn.Conv2d(8, 1, 1)
        self.place = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 8))

    def forward(self, x):
        axes = (torch.arange(n) / n for n in x.shape[-2:])
        r = torch.stack(torch.meshgrid(*axes, indexing="ij"), -1)
        h = self.up(x) + self.place(r).movedim(-1, 0)
        return self.down(torch.tanh(h - mean(h)))


def test_fields_from_parameters_follow_the_parameters():
    torch.manual_seed(0)
    anchored, x = qn.anchor(Placed(), N), field(FINE)
    anchored(x).sum().backward()
    assert all(p.grad is not None for p in anchored.parameters())
    with torch.no_grad():
        for p in anchored.parameters():
            p += 0.1 * torch.randn_like(p)
    torch.testing.assert_close(anchored(x), copy.deepcopy(anchored)(x))
    other = Placed().requires_grad_(False)
    frozen = qn.anchor(Placed().requires_grad_(False), N)
    frozen(x)
    frozen.load_state_dict(other.state_dict())
    torch.testing.assert_close(frozen(x), qn.anchor(other, N)(x))


def test_outputs_on_other_grids_than_the_input():
    class Stress(nn.Module):
        def __init__(self):
            super().__init__()
            self.c = nn.Conv2d(1, 9, 1)

        def forward(self, x):
            return self.c(x).mean((-2, -1)).view(-1, 1, 3, 3)

    assert qn.at_native(Stress(), N)(field(FINE)).shape == (1, 1, 3, 3)
    finer = nn.Sequential(nn.Conv2d(1, 1, 1), nn.Upsample(scale_factor=2))
    assert qn.at_native(finer, (8, 8), placement="cell")(field(24)).shape == (1, 1, 48, 48)
    assert qn.at_native(nn.Conv2d(1, 1, 3, 2, 1), N)(field(FINE)).shape == (1, 1, 9, 9)


def test_an_audit_names_the_placement():
    model = nn.Sequential(nn.Conv2d(1, 8, 1), nn.GroupNorm(1, 8), nn.GELU(), nn.Conv2d(8, 1, 1))

    def cells(n):
        r = (torch.arange(n) + 0.5) / n
        return (torch.sin(3 * r)[:, None] * r.exp())[None, None]

    assert "(model, 8, placement='cell')" in str(qn.audit(model, cells, [8, 24], placement="cell"))


def test_an_extended_model_in_training_counts_a_batch_once():
    model = nn.Sequential(nn.Conv2d(1, 4, 1), nn.BatchNorm2d(4), nn.Conv2d(4, 1, 1))
    extended = qn.extend(model, N).train()
    before = model[1].running_mean.clone()
    for _ in range(3):
        extended(field(FINE)).sum().backward()
    assert model[1].num_batches_tracked == 3
    assert not torch.equal(model[1].running_mean, before)
    assert extended(torch.zeros(0, 1, FINE, FINE)).shape == (0, 1, FINE, FINE)


def test_transforms_under_autocast():
    class Waves(nn.Module):
        def __init__(self):
            super().__init__()
            self.c, self.w = nn.Conv2d(1, 4, 1), nn.Parameter(torch.randn(4, 3, 3, dtype=torch.cfloat))

        def forward(self, x):
            spectrum = torch.fft.rfft2(self.c(x).float())
            low = torch.zeros_like(spectrum)
            low[..., :3, :3] = spectrum[..., :3, :3] * self.w
            return torch.fft.irfft2(low, s=x.shape[-2:])

    anchored = qn.anchor(Waves(), N)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = anchored(field(FINE))
    torch.testing.assert_close(y, anchored(field(FINE)), rtol=5e-2, atol=5e-2)


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad=True:UserWarning")
def test_what_cannot_be_seen_is_listed():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.c = nn.Conv2d(1, 1, 1)

        def forward(self, x):
            return checkpoint(lambda v: v - mean(self.c(v)), x, use_reentrant=True) * mean(x)

    (entry,) = (e for e in qn.anchor(Block(), N).anchor_report if e.action == "left")
    assert "cannot be seen" in entry.why


@pytest.mark.parametrize("way", WAYS)
def test_checkpoints_change_nothing(way):
    class Block(nn.Module):
        def __init__(self, keep):
            super().__init__()
            self.c, self.keep = nn.Conv2d(1, 1, 1), keep

        def forward(self, x):
            part = lambda v: (v - mean(self.c(v))).tanh()  # noqa: E731
            return part(x) if self.keep else checkpoint(part, x, use_reentrant=False)

    plain, saving = Block(True), Block(False)
    saving.load_state_dict(plain.state_dict())
    results = []
    for model in (plain, saving):
        adapted, x = way(model, N), field(FINE).requires_grad_()
        y = adapted(x)
        results.append([y, *torch.autograd.grad(y.square().sum(), [x, *adapted.parameters()])])
    torch.testing.assert_close(*results)
    saving(field(FINE)).sum().backward()  # and by itself as before


def test_numpy_integers_are_resolutions():
    np = pytest.importorskip("numpy")
    model = nn.Sequential(nn.Conv2d(1, 4, 1), nn.GroupNorm(1, 4))
    assert qn.anchor(model, (np.int64(9), np.int32(9)))(field(FINE)).shape == (1, 4, FINE, FINE)


class Forced(nn.Module):
    """A forcing (n, n) shared by all samples, or one each (B, n, n)."""

    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(1, 1, 1)

    def forward(self, x, forcing):
        forcing = forcing if forcing.ndim == 2 else forcing[:, None]
        return (self.c(x) - mean(x)) * forcing


@pytest.mark.parametrize("way", [qn.at_native, qn.extend])
@pytest.mark.parametrize("own", [False, True])
def test_fields_without_channels_are_restricted_too(way, own):
    model, x = Forced(), field(FINE, batch=2)
    forcing = x[:, 0] if own else x[0, 0]
    options = {} if way is qn.at_native else {"example": (x[..., ::2, ::2], forcing[..., ::2, ::2])}
    y = way(model, N, **options)(x, forcing)
    torch.testing.assert_close(y[..., ::2, ::2], model(x[..., ::2, ::2], forcing[..., ::2, ::2]))


def test_at_native_takes_a_dict():
    class Named(nn.Module):
        def forward(self, batch):
            return {"u": batch["a"] - mean(batch["a"])}

    x = field(FINE)
    y = qn.at_native(Named(), N)({"a": x})["u"]
    torch.testing.assert_close(y[..., ::2, ::2], x[..., ::2, ::2] - mean(x[..., ::2, ::2]))


def test_labels_at_points():
    model, k = Labelled(), (2.9 * torch.rand(1, 1, *N)).long()
    points = torch.tensor([[0.0, 0.0], [0.26, 0.49], [1.0, 1.0]])
    y = qn.extend(model, N, example=k).at_points(points, k)
    torch.testing.assert_close(y[0, 0], model(k)[0, 0][[0, 2, 8], [0, 4, 8]])
