"""Norms on shards equal norms on the whole, in values and all gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import quadnorm as qn
from quadnorm.norms import make_norm
from quadnorm.parallel import shard
from tests.parallel.compare import compare, cut, world_group
from tests.parallel.ranks import run


def anchored_blend(**options: Any) -> torch.nn.Module:
    layer = qn.BlendQuadNorm(6, 0.3, learn_alpha=True, **options)
    layer.measure = qn.Blend(0.3, qn.Grid("trapezoid"), qn.Anchored((5, 4)))
    return layer


NORMS: dict[str, Any] = {
    "quad": lambda **k: qn.QuadNorm(6, **k),
    "quad instance": lambda **k: qn.QuadNorm(6, mode="instance", **k),
    "quad group simpson": lambda **k: qn.QuadNorm(6, mode="group", num_groups=2, measure="simpson", **k),
    "no affine": lambda **k: qn.QuadNorm(6, affine=False, measure=("trapezoid", "periodic"), **k),
    "blend": lambda **k: qn.BlendQuadNorm(6, 0.3, **k),
    "blend learned": lambda **k: qn.BlendQuadNorm(6, 0.3, learn_alpha=True, **k),
    "blend learned, anchored": anchored_blend,
    "anchored": lambda **k: qn.AnchoredNorm(6, (5, 4), mode="instance", **k),
    "rms": lambda **k: qn.QuadRMSNorm(6, **k),
    "rms layer": lambda **k: qn.QuadRMSNorm(6, mode="layer", **k),
    "layer": lambda **k: make_norm("layer", 6).to(**k),
    "instance": lambda **k: make_norm("instance", 6).to(**k),
    "counting rms": lambda **k: make_norm("rms", 6).to(**k),
    "token": lambda **k: make_norm("token", 6).to(**k),
    "learnable": lambda **k: make_norm("learnablequad", 6).to(**k),
    "conditioned": lambda **k: make_norm("resconditioned", 6).to(**k),
}


def perturbed(layer: torch.nn.Module) -> torch.nn.Module:
    with torch.no_grad():
        for p in layer.parameters():
            p += 0.3 * torch.randn(p.shape, dtype=p.dtype)
    return layer


def case_norm(rank: int, world: int, name: str, dtype: torch.dtype, how: str, axis: int) -> None:
    x = 3 + torch.randn(2, 6, 11, 9, dtype=dtype)
    compare(perturbed(NORMS[name](dtype=dtype)), x, world_group(), axis, cut(x.shape[2 + axis], world, how))


@pytest.mark.parametrize("name", NORMS)
def test_norm(name: str) -> None:
    for world, how, axis in ((2, "even", 0), (3, "uneven", 1), (4, "empty", 0), (4, "even", 0)):
        run(world, case_norm, name=name, dtype=torch.float64, how=how, axis=axis)
    run(3, case_norm, name=name, dtype=torch.float32, how="even", axis=1)


def case_empty_batch(rank: int, world: int) -> None:
    layer = shard(qn.QuadNorm(6), world_group(), axis=0, size=4 * world)
    x = torch.randn(0, 6, 4, 3, requires_grad=True)
    layer(x).sum().backward()
    assert x.grad is not None
    assert x.grad.shape == x.shape
    assert all(p.grad is not None and not p.grad.any() for p in layer.parameters())


def test_an_empty_batch_has_gradients() -> None:
    run(2, case_empty_batch)
