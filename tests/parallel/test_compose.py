"""DeviceMesh, DTensor, DistributedDataParallel, FSDP2, compiled layers, ten training steps."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

import quadnorm as qn
from quadnorm.operators import FNO, GalerkinTransformer, Transolver
from quadnorm.parallel import shard, total, unshard
from quadnorm.parallel.split import even
from tests import ROOT
from tests.parallel.compare import close, world_group
from tests.parallel.ranks import Ranks, run

SMALL = {"width": 8, "layers": 2}
MODELS: dict[str, Any] = {
    "fno": lambda: FNO(modes=3, norm="quad", **SMALL),
    "galerkin": lambda: GalerkinTransformer(heads=2, norm="blend", **SMALL),
    "transolver": lambda: Transolver(heads=2, slices=3, norm="instance", **SMALL),
}


def case_dtensor(rank: int, world: int, name: str) -> None:
    """(data, space) as users of DeviceMesh write it; 9 rows on 2 ranks are 5 and 4."""
    mesh = init_device_mesh("cpu", (world // 2, 2), mesh_dim_names=("data", "space"))
    model = MODELS[name]().double()
    x, g = torch.randn(4, 1, 9, 8, dtype=torch.float64), torch.randn(4, 1, 9, 8, dtype=torch.float64)
    full = x.clone().requires_grad_()
    y = model(full)
    y.backward(g)
    parted = shard(copy.deepcopy(model), mesh["space"], axis=0)  # a DTensor says how large the whole is
    parted.zero_grad()
    placements = [Shard(0), Shard(2)]
    xs = distribute_tensor(x, mesh, placements).requires_grad_()
    z = parted(xs)
    assert isinstance(z, DTensor)
    assert tuple(z.placements) == tuple(placements)
    close(z.full_tensor(), y, "values")
    z.backward(distribute_tensor(g, mesh, placements))
    close(xs.grad.full_tensor(), full.grad, "input gradient")
    for (key, p), q in zip(parted.named_parameters(), model.parameters(), strict=True):
        grad = p.grad.clone()
        torch.distributed.all_reduce(
            grad if not grad.is_complex() else torch.view_as_real(grad), group=mesh["data"].get_group()
        )
        close(grad, q.grad, key, max(q.grad.abs().max().item(), 0.1))
    if world == 2:  # along one axis of the mesh only
        with pytest.raises(ValueError, match=r"use distribute_tensor\(x, mesh, \[Shard\(2\)\]\)"):
            parted(distribute_tensor(x, mesh, [Replicate(), Replicate()]))
        with pytest.raises(ValueError, match="along space it must be cut by Shard"):
            parted(distribute_tensor(x, mesh, [Replicate(), Shard(1)]))


@pytest.mark.parametrize("name", MODELS)
def test_dtensor(name: str) -> None:
    run(2, case_dtensor, name=name)
    run(4, case_dtensor, name=name)


def case_cuts(rank: int, world: int) -> None:
    mesh = init_device_mesh("cpu", (world,), mesh_dim_names=("space",))
    for n in range(1, 12):
        whole = torch.arange(n)
        a, b = even(n, world)[rank]
        assert torch.equal(distribute_tensor(whole, mesh, [Shard(0)]).to_local(), whole[a:b])


def test_shards_are_cut_as_dtensor_cuts_them() -> None:
    run(4, case_cuts)


def mean_square(y: Tensor, truth: Tensor, group: Any = None) -> Tensor:
    """The mean of squares over all samples of this rank's batch entries; the same on every rank of space."""
    square = (y - truth).square().sum()
    count = torch.tensor(float(truth.numel()), dtype=truth.dtype)
    if group is not None:
        square, count = total(square, group), total(count, group)
    return square / count


def trained(model: nn.Module, x: Tensor, u: Tensor, steps: int, group: Any = None) -> nn.Module:
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(steps):
        optimiser.zero_grad()
        mean_square(model(x), u, group).backward()
        optimiser.step()
    return model


def case_training(rank: int, world: int, name: str, how: str) -> None:
    """Ten steps with a data axis of 2 (or 1) and space on the rest."""
    data = 2 if how in ("ddp", "fsdp", "fsdp blocks") else 1
    mesh = init_device_mesh("cpu", (data, world // data), mesh_dim_names=("data", "space"))
    x, u = (torch.randn(4, 1, 9, 8, dtype=torch.float64) for _ in range(2))
    start = MODELS[name]().double()
    whole = trained(copy.deepcopy(start), x, u, 10)
    parted = shard(copy.deepcopy(start), mesh["space"], axis=1, size=8)
    part = parted._split.take
    mine = slice(4 // data * mesh["data"].get_local_rank(), 4 // data * (mesh["data"].get_local_rank() + 1))
    wrapped: nn.Module = parted
    if how == "ddp":
        wrapped = DistributedDataParallel(parted, process_group=mesh["data"].get_group())
    elif how == "fsdp":
        fully_shard(parted, mesh=mesh["data"])
    elif how == "fsdp blocks":
        for block in parted.blocks:
            fully_shard(block, mesh=mesh["data"])
        fully_shard(parted, mesh=mesh["data"])
    trained(wrapped, part(x[mine]), part(u[mine]), 10, mesh["space"].get_group())
    for (key, p), q in zip(parted.named_parameters(), whole.parameters(), strict=True):
        p = p.full_tensor() if isinstance(p, DTensor) else p
        assert (p - q).abs().max() < 1e-7, f"{key}: {(p - q).abs().max():.1e}"


@pytest.mark.parametrize("name", MODELS)
def test_ten_training_steps_give_the_same_parameters(name: str) -> None:
    run(3, case_training, name=name, how="space")
    run(4, case_training, name=name, how="ddp")


@pytest.mark.parametrize("how", ["fsdp", "fsdp blocks"])
def test_with_fsdp(how: str) -> None:
    run(4, case_training, name="galerkin", how=how)


def case_state(rank: int, world: int) -> None:
    """The state dict is the serial model's, and goes both ways; shard changes nothing that unshard does not undo."""
    model, other = MODELS["fno"](), MODELS["fno"]()
    keys = list(model.state_dict())
    parted = shard(model, world_group(), size=9)
    assert parted is model
    assert isinstance(parted, FNO)
    assert list(parted.state_dict()) == keys
    parted.load_state_dict(other.state_dict())
    assert "ShardedFNO" in repr(parted)
    x = torch.randn(1, 1, 9, 8)
    assert torch.equal(unshard(parted)(x), other(x))
    again = copy.deepcopy(shard(parted, world_group(), size=9))
    close(again(again._split.take(x)), again._split.take(other(x)), "values")


def test_state() -> None:
    run(2, case_state)


def case_compiled(rank: int, world: int) -> None:
    """aot_eager traces forward, backward and collectives; code generation is the compiler's affair."""
    torch._dynamo.reset()
    for layer in (qn.QuadNorm(4, mode="instance").double(), qn.QuadRMSNorm(4).double()):
        x = torch.randn(2, 4, 8, 6, dtype=torch.float64)
        full = x.clone().requires_grad_()
        y = layer(full)
        y.pow(3).sum().backward()
        parted = shard(nn.ModuleList([copy.deepcopy(layer)]), world_group(), size=8)
        split = parted._split
        parted.zero_grad()
        mine = split.take(x).clone().requires_grad_()
        z = torch.compile(parted[0], backend="aot_eager", fullgraph=True)(mine)
        close(z, split.take(y), "values")
        z.pow(3).sum().backward()
        close(mine.grad, split.take(full.grad), "input gradient")
        close(parted[0].weight.grad, layer.weight.grad, "gradient of γ")


def test_compiled() -> None:
    run(2, case_compiled)


def case_compiled_model(rank: int, world: int, name: str) -> None:
    """The whole model as one graph, with its collectives and the sum of the pointwise maps' gradients."""
    torch._dynamo.reset()
    model = MODELS[name]().double()
    x = torch.randn(2, 1, 8, 6, dtype=torch.float64)
    y = model(x)
    y.pow(3).sum().backward()
    parted = shard(copy.deepcopy(model), world_group(), size=8)
    parted.zero_grad()
    z = torch.compile(parted, backend="aot_eager", fullgraph=True)(parted._split.take(x))
    close(z, parted._split.take(y), "values")
    z.pow(3).sum().backward()
    for (key, p), q in zip(parted.named_parameters(), model.parameters(), strict=True):
        close(p.grad, q.grad, key, max(q.grad.abs().max().item(), 0.1))


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_compiled_models(name: str) -> None:
    ranks = Ranks(2)
    try:
        ranks.run(case_compiled_model, name=name)
    finally:
        ranks.close()


def case_page(rank: int, world: int) -> None:
    page = (ROOT / "docs" / "howto" / "scaling.md").read_text()
    code = page.split("```py\n")[1].split("```")[0]
    for line in ('dist.init_process_group("gloo")', "dist.destroy_process_group()"):  # the group is there
        assert line in code
        code = code.replace(line, "")
    exec(compile(code, "docs/howto/scaling.md", "exec"), {})


def test_the_page_runs() -> None:
    run(4, case_page)
