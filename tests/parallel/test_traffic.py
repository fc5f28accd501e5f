"""How many collectives, and how many bytes: counted, on simulated ranks, for every layer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor.debug import CommDebugMode
from torch.testing._internal.distributed.fake_pg import FakeStore

import quadnorm as qn
from quadnorm.norms import make_norm
from quadnorm.operators import FNO, GalerkinTransformer, Transolver
from quadnorm.operators.galerkin import GalerkinAttention
from quadnorm.operators.spectral.convolution import SpectralConv
from quadnorm.operators.transolver import SliceAttention
from quadnorm.parallel import Traffic, shard, unshard
from quadnorm.parallel.traffic import Message

B, C = 2, 8


@pytest.fixture(params=[4, 1024])
def world(request: pytest.FixtureRequest) -> Iterator[int]:
    """One process plays the middle rank of many; nothing is sent, and sums are only this rank's."""
    if dist.is_initialized():
        dist.destroy_process_group()
    count: int = request.param
    dist.init_process_group("fake", store=FakeStore(), rank=count // 2, world_size=count)
    yield count
    dist.destroy_process_group()


def both_ways(model: nn.Module, rows: int, world: int, **options: Tensor) -> tuple[list[Message], list[Message]]:
    """The messages of a forward and of a backward pass at ``rows`` rows in all, ``rows/world`` of them here."""
    parted = shard(model, dist.group.WORLD, axis=0, size=rows)
    channels = getattr(model, "num_features", getattr(model, "in_channels", 1))
    x = torch.randn(B, channels, rows // world, 16, requires_grad=True)
    with CommDebugMode() as counted, Traffic() as there:
        y = parted(x, **options)
    assert counted.get_total_counts() == len(there.messages)
    with CommDebugMode() as counted, Traffic() as back:
        y.sum().backward()
    assert counted.get_total_counts() == len(back.messages)
    return there.messages, back.messages


NORMS = {
    "layer": (lambda: qn.QuadNorm(C), 1),
    "group": (lambda: qn.QuadNorm(C, mode="group", num_groups=4), 4),
    "instance": (lambda: make_norm("instance", C), C),
    "blend": (lambda: qn.BlendQuadNorm(C), 1),
    "anchored": (lambda: qn.AnchoredNorm(C, 5), 1),
}


@pytest.mark.parametrize("name", NORMS)
def test_a_norm_sends_two_numbers_per_group(name: str, world: int) -> None:
    make, groups = NORMS[name]
    for rows in (2 * world, 8 * world):
        there, back = both_ways(make(), rows, world)
        assert there == [Message("all_gather_into_tensor", 2 * B * groups, 16 * B * groups)]  # float64: offsets
        assert back == [Message("all_reduce", 2 * B * groups + 2 * C, 4 * (2 * B * groups + 2 * C))]


def test_rms_sends_one(world: int) -> None:
    there, back = both_ways(qn.QuadRMSNorm(C), 2 * world, world)
    assert [(m.name, m.numbers) for m in (*there, *back)] == [("all_reduce", B * C), ("all_reduce", B * C + C)]


def test_weights_are_compared_once(world: int) -> None:
    there, back = both_ways(qn.QuadNorm(C), 2 * world, world, weights=torch.rand(2, 16))
    assert [m.numbers for m in there] == [3, 2 * B]  # Σ w, the count, the least; then as ever
    assert [m.numbers for m in back] == [2 * B + 2 * C]


@pytest.mark.parametrize("kernel", ["fft", "hermitian"])
def test_a_spectral_layer_sends_its_modes(kernel: str, world: int) -> None:
    layer = SpectralConv(C, 5, modes=3, kernel=kernel)
    modes = layer.full_weight().shape[0]
    for rows in (4 * world, 16 * world):
        there, back = both_ways(layer, rows, world)
        assert there == [Message("all_reduce", 2 * B * modes * C, 8 * B * modes * C)]
        assert back == [Message("all_reduce", 2 * B * modes * 5, 8 * B * modes * 5)]


def test_an_extended_model_sends_its_input_on_the_training_grid(world: int) -> None:
    model = qn.extend(FNO(width=4, modes=2, layers=2, projection=4), (5, 6), example=torch.randn(1, 1, 5, 6))
    parameters = sum(p.numel() * (2 if p.is_complex() else 1) for p in model.parameters())
    for rows in (2 * world, 8 * world):
        parted = shard(model, dist.group.WORLD, axis=0, size=rows)
        x = torch.randn(B, 1, rows // world, 16, requires_grad=True)
        with Traffic() as there:  # CommDebugMode loses count of modules that run several times
            y = parted(x)
        with Traffic() as back:
            y.sum().backward()
        assert there.messages == [Message("all_reduce", B * 5 * 6, 4 * B * 5 * 6)]
        assert sorted(m.numbers for m in back.messages) == sorted([B * 5 * 6, parameters])
        unshard(model)


def test_attention_sends_its_matrices(world: int) -> None:
    heads, slices, n = 2, 3, 32 * 2
    x, r = torch.randn(B, C, n, requires_grad=True), torch.rand(1, 2, n)
    for layer, sent in (
        (GalerkinAttention(C, heads, 2), (B * heads * (C // heads + 2) ** 2,) * 2),
        (SliceAttention(C, heads, slices), (B * slices * (C + 1), B * slices * C)),
    ):
        parted = shard(nn.ModuleList([layer]), dist.group.WORLD, axis=0, size=2 * world)[0]
        with Traffic() as traffic:
            given = (x, r) if isinstance(layer, GalerkinAttention) else (x,)
            parted(*given, shape=(2, 32)).sum().backward()
        assert [(m.name, m.numbers) for m in traffic.messages] == [("all_reduce", k) for k in sent]


MODELS = {
    # Forward, backward: norms + spectral or attention; backward also once for all parameters that act on samples.
    "fno": (lambda: FNO(modes=3, width=C, layers=3), 3 * (1 + 1)),
    "galerkin": (lambda: GalerkinTransformer(width=C, heads=2, layers=3), 3 * (2 + 1)),
    "transolver": (lambda: Transolver(width=C, heads=2, layers=3, slices=3), 3 * (2 + 1)),
}


@pytest.mark.parametrize("name", MODELS)
def test_bytes_of_a_model_do_not_depend_on_the_resolution(name: str, world: int) -> None:
    make, layers = MODELS[name]
    seen = set()
    for rows in (8 * world, 32 * world):
        model = make()
        there, back = both_ways(model, rows, world)
        assert (len(there), len(back)) == (layers, layers + 1)
        summed = back[-1].numbers
        assert summed < sum(p.numel() for p in model.parameters())  # kernels and norms have theirs already
        seen.add((sum(m.bytes for m in there), sum(m.bytes for m in back)))
    assert len(seen) == 1


def test_nothing_is_sent_for_gradients_without_need(world: int) -> None:
    model = shard(FNO(modes=3, width=C, layers=1), dist.group.WORLD, size=8 * world)
    x = torch.randn(B, 1, 8, 16)
    with Traffic() as traffic, torch.no_grad():
        model(x)
    assert len(traffic.messages) == 2
    for p in model.parameters():
        p.requires_grad_(False)
    with Traffic() as traffic:
        model(x.requires_grad_()).sum().backward()
    assert len(traffic.messages) == 4  # two layers there and back, and no parameter
