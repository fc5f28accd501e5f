"""Weights, masks, offsets, layouts, two split axes, second derivatives, shapes that are asked for."""

from __future__ import annotations

from inspect import signature
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

import quadnorm as qn
from quadnorm.norms import make_norm
from quadnorm.operators import FNO, GalerkinTransformer, Transolver
from quadnorm.parallel import shard, single
from quadnorm.parallel.measure import masses
from quadnorm.parallel.split import Part
from tests.parallel.compare import close, compare, cut, world_group
from tests.parallel.ranks import run

KINDS: dict[str, Any] = {
    "quad": lambda: qn.QuadNorm(4, mode="instance"),
    "blend": lambda: qn.BlendQuadNorm(4, 0.4),
    "blend learned": lambda: qn.BlendQuadNorm(4, 0.4, learn_alpha=True),
    "counting": lambda: make_norm("layer", 4),
    "rms": lambda: qn.QuadRMSNorm(4),
    "learnable": lambda: make_norm("learnablequad", 4),
}


def case_weights(rank: int, world: int, kind: str, how: str) -> None:
    x = 2 + torch.randn(2, 4, 7, 5, dtype=torch.float64)
    for batch in (False, True):
        w = torch.rand(2, 7, 5, dtype=torch.float64) * 1e3
        w[:, 1, 2] = 0.0
        w = w if batch else w[0]
        layer = KINDS[kind]().double()
        compare(layer, x, world_group(), 0, cut(7, world, how), whole={"weights": w}, spatial={"weights": w.ndim - 2})
    w = (w > 300).double()
    w[0, :4] = 0  # the first ranks have nothing of the first entry
    compare(layer, x, world_group(), 0, cut(7, world, how), whole={"weights": w}, spatial={"weights": 1})


@pytest.mark.parametrize("kind", KINDS)
def test_weights_given_at_call_time(kind: str) -> None:
    run(2, case_weights, kind=kind, how="even")
    run(4, case_weights, kind=kind, how="empty")


def case_masks(rank: int, world: int, how: str) -> None:
    x = torch.randn(2, 1, 8, 7, dtype=torch.float64)
    mask = torch.rand(2, 8, 7) > 0.3
    for make in (
        lambda: FNO(modes=2, width=4, layers=2, norm="quad", gain=True),
        lambda: FNO(modes=2, width=4, layers=1, norm="blend", measure="trapezoid"),
        lambda: GalerkinTransformer(width=8, heads=2, layers=1, norm="quad", measure="trapezoid"),
        lambda: Transolver(width=8, heads=2, layers=1, slices=3, norm="layer"),
    ):
        for given in ({"mask": mask[0]}, {"mask": mask, "weights": torch.rand(8, 7, dtype=torch.float64)}):
            where = {k: v.ndim - 2 for k, v in given.items()}
            compare(make().double(), x, world_group(), 0, cut(8, world, how), whole=given, spatial=where)


@pytest.mark.skipif("mask" not in signature(qn.QuadNorm.forward).parameters, reason="norms take no mask yet")
def test_masks_of_operators() -> None:
    run(2, case_masks, how="even")
    run(3, case_masks, how="empty")


def case_weights_of_operators(rank: int, world: int, how: str) -> None:
    """One set of weights for the whole operator, also on grids."""
    x, w = torch.randn(2, 1, 8, 7, dtype=torch.float64), torch.rand(2, 8, 7, dtype=torch.float64)
    w[:, 2, 3] = 0
    for make in (
        lambda: FNO(modes=2, width=4, layers=2, norm="quad", gain=True),
        lambda: FNO(modes=2, width=4, layers=1, norm="blend", measure=qn.Blend(0.3, qn.Grid("trapezoid"))),
        lambda: GalerkinTransformer(width=8, heads=2, layers=1, norm="quad", measure="trapezoid"),
        lambda: Transolver(width=8, heads=2, layers=1, slices=3, norm="layer"),
    ):
        for given in (w, w[1]):
            where = {"weights": given.ndim - 2}
            compare(make().double(), x, world_group(), 0, cut(8, world, how), whole={"weights": given}, spatial=where)


def test_weights_of_operators() -> None:
    run(2, case_weights_of_operators, how="even")
    run(3, case_weights_of_operators, how="empty")


def case_gradient_of_weights(rank: int, world: int) -> None:
    x = torch.randn(2, 4, 7, dtype=torch.float64)
    for layer in (qn.QuadNorm(4, mode="instance").double(), qn.BlendQuadNorm(4, 0.4).double()):
        for shape in ((7,), (2, 7)):
            whole = torch.rand(shape, dtype=torch.float64).requires_grad_()
            layer(x, weights=whole).pow(3).sum().backward()
            assert whole.grad is not None
            parted = shard(layer, world_group(), size=7)
            part = parted._split.part_of((7,)).slices[0]
            mine = whole.detach()[..., part].clone().requires_grad_()
            parted(x[:, :, part], weights=mine).pow(3).sum().backward()
            close(mine.grad, whole.grad[..., part], "gradient of the weights", whole.grad.abs().max().item())
            layer = qn.parallel.unshard(parted)


def test_weights_may_require_grad() -> None:
    run(3, case_gradient_of_weights)


def case_bad_weights(rank: int, world: int) -> None:
    layer = shard(qn.QuadNorm(4), world_group(), size=6)
    x = torch.randn(1, 4, 3)
    for value, match in (
        (-1.0, "must not be negative"),
        (torch.nan, "NaN"),
        (0.0, "all weights of all ranks are zero"),
    ):
        w = torch.full((3,), value if rank == 1 else 0.0)
        with pytest.raises(ValueError, match=match):  # on every rank, although only one of them was given it
            layer(x, weights=w)
    with pytest.raises(ValueError, match=r"weights have shape \(5,\)"):
        layer(x, weights=torch.ones(5))


def test_every_rank_refuses_what_one_was_given() -> None:
    run(2, case_bad_weights)


def case_offset(rank: int, world: int, dtype: torch.dtype) -> None:
    """x = 10⁶ + small steps, all of them float32 numbers: the answer is known exactly."""
    steps = torch.arange(64, dtype=torch.float64).reshape(1, 1, 16, 4) % 7
    x = (1e6 + steps).to(dtype)
    assert torch.equal(x.double() - 1e6, steps)
    for layer in (qn.QuadNorm(1, affine=False), make_norm("instance", 1, affine=False)):
        w = layer.measure.weights((16, 4))
        mean = (w * steps).sum()
        exact = (steps - mean) / ((w * (steps - mean) ** 2).sum() + layer.eps).sqrt()
        parted = shard(layer, world_group(), size=16)
        y = parted(parted._split.take(x)).double()
        assert (y - parted._split.take(exact)).abs().max() < (2e-6 if dtype == torch.float32 else 1e-9)


def test_large_offsets_are_exact() -> None:
    for dtype in (torch.float32, torch.float64):
        run(4, case_offset, dtype=dtype)


def case_layouts(rank: int, world: int) -> None:
    x = torch.randn(2, 6, 5, 3, dtype=torch.float64)
    compare(qn.QuadNorm(3, layout="last", dtype=torch.float64), x, world_group(), 0, 6, first=1)
    layer, tokens = qn.QuadNorm(3, layout=(6, 5), dtype=torch.float64), x.flatten(1, 2)
    expected = layer(tokens)
    parted = shard(layer, world_group(), axis=0, size=6)
    rows = parted._split.part_of((6, 5)).mine[0]
    mine = slice(rows[0] * 5, rows[1] * 5)
    close(parted(tokens[:, mine]), expected[:, mine], "tokens")


def test_layouts() -> None:
    run(2, case_layouts)


def case_two_axes(rank: int, world: int) -> None:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("y", "x"))
    for make in (
        lambda: qn.QuadNorm(1, mode="instance"),
        lambda: FNO(modes=3, width=8, layers=2, norm="quad"),
        lambda: GalerkinTransformer(width=8, heads=2, layers=1),
        lambda: Transolver(width=8, heads=2, layers=1, slices=3, measure="trapezoid"),
    ):
        x = torch.randn(2, 1, 9, 8, dtype=torch.float64)
        compare(make().double(), x, mesh["y", "x"], (0, 1), (9, [3, 5]))
        compare(make().double(), x, mesh["y", "x"], (1, 0), (8, 9))


def test_two_split_axes() -> None:
    run(4, case_two_axes)


def case_second_derivatives(rank: int, world: int, how: str) -> None:
    """The gradient of a gradient's square, as in a gradient penalty, by input and by parameters."""
    for make in (
        lambda: qn.QuadNorm(1, mode="instance"),
        lambda: qn.BlendQuadNorm(1, 0.3, learn_alpha=True),
        lambda: qn.QuadRMSNorm(1),
        lambda: FNO(modes=2, width=4, layers=1, norm="quad"),
        lambda: GalerkinTransformer(width=4, heads=2, layers=1, norm="layer"),
    ):
        torch.manual_seed(1)
        model = make().double()
        x = torch.randn(2, 1, 7, 6, dtype=torch.float64)
        g = torch.randn(2, 1, 7, 6, dtype=torch.float64)

        def penalty(m: nn.Module, x: torch.Tensor, g: torch.Tensor) -> tuple[torch.Tensor, ...]:
            x = x.clone().requires_grad_()
            (first,) = torch.autograd.grad((m(x) * g).sum(), x, create_graph=True)
            params = [p for p in m.parameters() if p.requires_grad]
            return torch.autograd.grad(first.pow(2).sum(), [x, *params], allow_unused=True)

        expected = penalty(model, x, g)
        parted = shard(model, world_group(), size=cut(7, world, how))
        take = parted._split.take
        shared = penalty(parted, take(x), take(g))
        close(shared[0], take(expected[0]), "by the input", expected[0].abs().max().item())
        for a, b in zip(shared[1:], expected[1:], strict=True):
            if b is not None and a is not None:
                close(a, b, "by a parameter", max(b.abs().max().item(), 1e-3))
            else:
                assert a is None or a.abs().max() < 1e-12


def test_second_derivatives() -> None:
    run(2, case_second_derivatives, how="even")
    run(3, case_second_derivatives, how="empty")


def case_asked(rank: int, world: int) -> None:
    """Without size=, ranks tell each other; any resolution may come."""
    model = FNO(modes=2, width=4, layers=1, norm="quad").double()
    for sizes in ([4, 3, 0], [1, 7, 5], [9, 9, 9]):
        x = torch.randn(1, 1, sum(sizes), 6, dtype=torch.float64)
        expected = qn.parallel.unshard(model)(x)
        parted = shard(model, world_group(), axis=0)
        start = sum(sizes[:rank])
        mine = slice(start, start + sizes[rank])
        close(parted(x[:, :, mine]), expected[:, :, mine], "values", expected.abs().max().item())


def test_shapes_are_asked_for() -> None:
    run(3, case_asked)


def test_messages() -> None:
    group = single()
    layer = shard(qn.QuadNorm(4), group, size=8)
    with pytest.raises(ValueError, match=r"got samples of shape \(7,\), expected \(8,\) of the whole \(8,\)"):
        layer(torch.randn(1, 4, 7))
    with pytest.raises(ValueError, match="different spatial axes, got axis="):
        shard(qn.QuadNorm(4), group, axis=(0, 1))
    with pytest.raises(ValueError, match="a list of 1, one for each rank"):
        shard(qn.QuadNorm(4), group, size=[4, 4])
    with pytest.raises(TypeError, match="expected a DeviceMesh or a process group, got 'space'"):
        shard(qn.QuadNorm(4), "space")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="axis=\\(2,\\) is split, but the field has 1 spatial axes"):
        shard(qn.QuadNorm(4), group, axis=2, size=8)(torch.randn(1, 4, 8))


def test_masses_found_in_inference_mode_serve_training():
    measure, part = qn.Grid("trapezoid"), Part((9,), (((0, 5),), ((5, 9),)), 0)
    with torch.inference_mode():
        masses(measure, part)
    found = masses(measure, part)
    torch.testing.assert_close(found, torch.tensor([4.5, 3.5], dtype=torch.float64) / 8)
    x = torch.ones(2, dtype=torch.float64, requires_grad=True)
    (x * found).sum().backward()
    assert torch.equal(x.grad, found)
