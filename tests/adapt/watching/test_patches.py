"""Sums and derivatives inside ``torch.func`` transforms are seen, anchored and extended like those outside."""

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, jacrev, vmap

import quadnorm as qn
from quadnorm.adapt.watching.patches import hidden_sizes, unhidden
from quadnorm.adapt.watching.watch import CannotFollowError
from tests.adapt.fields import smooth


def field(n: int) -> Tensor:
    return smooth(n, 1)


class _Centred(nn.Module):
    """Each batch entry without its mean, by ``vmap``."""

    def __init__(self) -> None:
        super().__init__()
        self.lift, self.head = nn.Conv1d(1, 4, 1), nn.Conv1d(4, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        h = vmap(lambda one: one - one.mean(-1, keepdim=True))(self.lift(x))
        return self.head(torch.tanh(h))


class _Stateless(_Centred):
    """The same through ``functional_call``, as meta-learning does."""

    def forward(self, x: Tensor) -> Tensor:
        h = functional_call(self.lift, dict(self.lift.named_parameters()), (x,))
        return self.head(torch.tanh(h - h.mean(-1, keepdim=True)))


class _Descent(nn.Module):
    """A gradient step on a functional: ∂F/∂x_j, F = (mean of f)·n."""

    def __init__(self, by: str) -> None:
        super().__init__()
        self.f = nn.Sequential(nn.Conv1d(1, 8, 1), nn.Tanh(), nn.Conv1d(8, 1, 1))
        self.by = by

    def forward(self, x: Tensor) -> Tensor:
        if self.by == "func":
            return x - x.shape[-1] * grad(lambda z: self.f(z).mean().square())(x)
        with torch.enable_grad():
            z = x.requires_grad_()
            u = self.f(z) - z.mean(-1, keepdim=True)
            weights = torch.ones_like(u) if self.by == "weights" else None
            (g,) = torch.autograd.grad(u if weights is not None else u.sum(), z, weights, create_graph=True)
        return u + g


class _PerPoint(nn.Module):
    """A network of one point, mapped over all of them; the mean outside."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))

    def forward(self, x: Tensor) -> Tensor:
        y = vmap(vmap(self.net))(x.movedim(1, -1)).movedim(-1, 1)
        return y + x.mean(-1, keepdim=True)


class _Ensemble(nn.Module):
    """Three networks as one, ``vmap`` over their parameters."""

    def __init__(self) -> None:
        super().__init__()
        layers = (nn.Conv1d(1, 4, 1), nn.GroupNorm(1, 4), nn.Tanh(), nn.Conv1d(4, 1, 1))
        self.members = nn.ModuleList(nn.Sequential(*copy.deepcopy(layers)) for _ in range(3))
        self.skeleton = [nn.Sequential(*copy.deepcopy(layers)).to("meta")]  # in a list: not a part of the model

    def forward(self, x: Tensor) -> Tensor:
        each = [dict(m.named_parameters()) for m in self.members]
        stacked = {name: torch.stack([p[name] for p in each]) for name in each[0]}
        return vmap(lambda p: functional_call(self.skeleton[0], p, (x,)))(stacked).mean(0)


MODELS = {
    "ensemble": _Ensemble,
    "vmap": _Centred,
    "functional_call": _Stateless,
    "func.grad": lambda: _Descent("func"),
    "autograd.grad of a sum": lambda: _Descent("sum"),
    "autograd.grad with weights": lambda: _Descent("weights"),
    "vmap over points": _PerPoint,
}


@pytest.mark.parametrize("name", MODELS)
def test_ways_agree_with_the_native_run(name: str) -> None:
    """The model drifts at O(h); anchored it does at O(h²), extended not at all, and both have gradients."""
    torch.manual_seed(0)
    model = MODELS[name]().double()
    native = model(field(17))

    def gap(way: nn.Module, n: int) -> float:
        return float(((way(field(n))[..., :: (n - 1) // 16] - native).norm() / native.norm()).detach())

    fixed, everywhere = (
        qn.anchor(model, (17,), "endpoint", example=field(17)),
        qn.extend(model, (17,), "endpoint", example=field(17)),
    )
    assert all(e.action == "anchored" for e in fixed.anchor_report), fixed.anchor_report
    assert gap(fixed, 17) == 0
    assert gap(fixed, 65) < 0.15 * gap(model, 65)
    assert gap(everywhere, 65) < 1e-12
    for way in (fixed, everywhere):
        way.zero_grad()
        way(field(33)).square().mean().backward()
        assert all(p.grad is not None for p in way.parameters())


def test_audit_names_the_sum_inside() -> None:
    torch.manual_seed(0)
    result = qn.audit(_Centred(), lambda n: field(n).float(), [17, 33, 65], placement="endpoint")
    assert [(r.kind, r.action) for r in result.leaks] == [("call mean", "anchored")]


def test_audit_of_a_network_per_point() -> None:
    """Modules inside ``vmap`` are compared with their hidden axis, not across it."""
    result = qn.audit(_PerPoint().double(), field, [17, 33, 65], placement="endpoint")
    assert [r.kind for r in result.leaks] == ["call mean"]


class _Rows(nn.Module):
    """A sum along one axis of the grid inside a ``vmap`` over the other."""

    def __init__(self) -> None:
        super().__init__()
        self.lift = nn.Conv2d(1, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.lift(x))
        return vmap(lambda row: row - row.mean(-1, keepdim=True), in_dims=2, out_dims=2)(h)


def test_sum_inside_a_map_over_another_axis() -> None:
    torch.manual_seed(0)
    model = _Rows().double()
    x, fine = smooth(17), smooth(33)
    with pytest.raises(CannotFollowError, match="inside a vmap"):
        qn.extend(model, 17, "endpoint", example=x)
    fixed, native = qn.anchor(model, 17, "endpoint", example=x), model(x)
    gaps = [float((way(fine)[..., ::2, ::2] - native).norm().detach()) for way in (model, fixed)]
    assert gaps[1] < 0.15 * gaps[0]


class _Indexed(nn.Module):
    """Coordinates j/n, another function on every grid, given through ``vmap``."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(2, 1)

    def forward(self, x: Tensor) -> Tensor:
        r = torch.arange(x.shape[-1], dtype=x.dtype) / x.shape[-1]
        y = vmap(lambda a, b: self.net(torch.stack([a, b])), in_dims=(0, 0))(x[0, 0], r)
        return y.T[None] + x.mean(-1, keepdim=True)


def test_foreign_field_through_a_map_is_refused() -> None:
    with pytest.raises(CannotFollowError, match="through vmap"):
        qn.extend(_Indexed().double(), (17,), "endpoint", example=field(17))


def test_jacobian_is_left_and_said_so() -> None:
    class Jacobian(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.f = nn.Conv1d(1, 1, 1)

        def forward(self, x: Tensor) -> Tensor:
            J = jacrev(lambda z: torch.tanh(self.f(z[None, None]))[0, 0])(x[0, 0])
            return x + torch.diagonal(J) + x.mean(-1, keepdim=True)

    fixed = qn.anchor(Jacobian().double(), (17,), "endpoint", example=field(17), force=True)
    assert "autograd.grad" in str(fixed.anchor_report.left)


def test_hidden_axes() -> None:
    seen = []

    def inner(t: Tensor) -> Tensor:
        seen.append((hidden_sizes([t]), unhidden(t)))
        return t

    x = torch.arange(24.0).reshape(2, 3, 4)
    vmap(vmap(inner, in_dims=1), in_dims=1)(x)  # axis 1, and of what is left axis 1, which was axis 2
    ((sizes, values),) = seen
    assert sizes == (3, 4)
    assert torch.equal(values, x.permute(1, 2, 0))
    assert unhidden(x) is x


@pytest.mark.parametrize("way", [qn.anchor, qn.extend])
def test_a_model_that_fails_without_gradients_is_told_so(way) -> None:
    class Differentiates(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.f = nn.Conv1d(1, 1, 1)

        def forward(self, x: Tensor) -> Tensor:
            z = x.detach().requires_grad_()
            return x - torch.autograd.grad(self.f(z).mean(), z)[0]

    with pytest.raises(RuntimeError, match=r"put `with torch\.enable_grad\(\):` around"):
        way(Differentiates().double(), (17,), "endpoint", example=field(17))
