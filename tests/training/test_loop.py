"""The protocol: schedule, clipping, early stopping, and a whole run against a plain loop."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from quadnorm.problems import problem
from quadnorm.training import TrainConfig, load_model, train
from quadnorm.training.files.checkpoint import read_checkpoint
from quadnorm.training.loop import Loop, learning_rate
from quadnorm.training.model import Sizes, build_model
from quadnorm.training.versions import NUMERICS
from tests.training.tiny_runs import assert_same_run

Tiny = Callable[..., TrainConfig]


def test_the_schedule_warms_up_and_follows_a_cosine() -> None:
    config = TrainConfig(samples={"train": 40}, batch=20, epochs=50, schedule={"warmup": 5, "final": 0.1})  # type: ignore[arg-type]
    rates = [learning_rate(config, s) for s in range(100)]  # 10 warm-up steps, 90 steps of cosine
    assert rates[:10] == pytest.approx([5e-4 * k / 10 for k in range(1, 11)])
    assert rates[10] == pytest.approx(5e-4)
    assert rates[55] == pytest.approx(5e-4 * 0.55)  # half way: the mean of 1 and 0.1
    assert rates[99] == pytest.approx(5e-4 * (0.1 + 0.9 * (1 - math.cos(math.pi / 90)) / 2))
    assert all(a >= b for a, b in pairwise(rates[9:]))
    assert learning_rate(config, 100) == pytest.approx(5e-5)


def test_no_warm_up_begins_at_the_peak() -> None:
    assert learning_rate(TrainConfig(schedule={"warmup": 0}), 0) == 5e-4  # type: ignore[arg-type]


@pytest.mark.parametrize("loss", ["plain", "weighted", "mse"])
def test_a_run_is_what_a_plain_loop_computes(tiny: Tiny, tmp_path: Path, loss: str) -> None:
    """The same training written out, with coordinates, weights, losses and optimiser of the test's own making."""
    config = tiny("dtype=float64", f"loss={loss}", "optimiser.clip=0.5")
    result = train(config, tmp_path / "run", progress=False)

    p = problem("poisson")
    x, y = p.sample(range(8, 29), 9, dtype=torch.float64)
    xv, yv = p.sample(range(4, 8), 9, dtype=torch.float64)
    w = torch.ones(9, dtype=torch.float64)
    w[[0, -1]] = 0.5
    w = (w[:, None] * w) if loss == "weighted" else torch.ones(9, 9, dtype=torch.float64)
    model = build_model(config, Sizes(1, 1, 2, "endpoint")).operator
    mx, sx, my, sy = x.mean(), x.std(correction=0), y.mean(), y.std(correction=0)

    def error(a: torch.Tensor, u: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        prediction = model((a - mx) / sx) * sy + my
        return (((prediction - u) ** 2 * w).sum((1, 2, 3)) / (u**2 * w).sum((1, 2, 3))).sqrt()

    def trained(a: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
        return (model((a - mx) / sx) - (u - my) / sy).square().mean((1, 2, 3)) if loss == "mse" else error(a, u, w)

    optimiser = torch.optim.AdamW(model.parameters(), lr=1.0, weight_decay=1e-4)
    for epoch in range(3):
        order = np.random.Generator(np.random.Philox(np.random.SeedSequence((0, epoch)))).permutation(21)
        total = 0.0
        for k, part in enumerate((order[:8], order[8:16], order[16:])):
            optimiser.param_groups[0]["lr"] = learning_rate(config, 3 * epoch + k)
            optimiser.zero_grad()
            losses = trained(x[part], y[part])
            losses.mean().backward()  # type: ignore[no-untyped-call]
            norm = (
                torch.stack([q.grad.abs().square().sum() for q in model.parameters() if q.grad is not None])
                .sum()
                .sqrt()
            )
            for q in model.parameters():
                assert q.grad is not None
                q.grad *= min(1.0, 0.5 / float(norm))
            optimiser.step()
            total += float(losses.detach().sum())
        with torch.no_grad():
            val = float(error(xv, yv, torch.ones(9, 9, dtype=torch.float64)).mean())
        assert result.history[epoch]["train"] == pytest.approx(total / 21, rel=1e-5)
        assert result.history[epoch]["val"] == pytest.approx(val, rel=1e-5)


def test_the_same_config_gives_the_same_bits(tiny: Tiny, tmp_path: Path) -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    train(tiny(), tmp_path / "a", progress=False)
    assert torch.equal(torch.get_rng_state(), before)  # the caller's random stream is untouched
    torch.manual_seed(6)
    train(tiny(), tmp_path / "b", progress=False)
    assert_same_run(tmp_path / "a", tmp_path / "b")


@pytest.mark.parametrize("norm", ["layer", "quad:instance", "blend:0.3"])
@pytest.mark.parametrize("operator", ["fno", "galerkin", "transolver"])
def test_every_operator_learns_and_comes_back(tiny: Tiny, tmp_path: Path, operator: str, norm: str) -> None:
    params = {"fno": "{width: 8, modes: 3, layers: 2}", "galerkin": "{width: 16, heads: 2, layers: 1}"}
    chosen = params.get(operator, "{width: 16, heads: 2, layers: 1, slices: 4}")
    config = tiny(
        f"operator.name={operator}",
        f"operator.params={chosen}",
        f"operator.params.norm={norm}",
        "optimiser.lr=0.01",
        "epochs=8",
    )
    result = train(config, tmp_path, progress=False)
    assert result.history[-1]["train"] < 0.95 * result.history[0]["train"]
    model, again = load_model(tmp_path)
    assert again == config
    assert not model.training
    x, y = problem("poisson").sample(range(4, 8), 9)
    with torch.no_grad():
        errors = (model(x) - y).flatten(1).norm(dim=1) / y.flatten(1).norm(dim=1)
    assert errors.mean().item() == pytest.approx(result.best_val, rel=1e-5)


def test_several_grids(tiny: Tiny, tmp_path: Path) -> None:
    result = train(tiny("resolutions.train=[9, [7, 11]]", "resolutions.val=[13]"), tmp_path, progress=False)
    assert list(result.history[0]["val_by_grid"]) == ["13"]
    result = train(tiny("resolutions.train=[9, [7, 11]]"), tmp_path / "b", progress=False)
    by_grid = result.history[-1]["val_by_grid"]
    assert list(by_grid) == ["9", "7x11"]
    assert result.history[-1]["val"] == pytest.approx(sum(by_grid.values()) / 2)


def test_patience_ends_a_run_and_the_best_weights_are_kept(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Validation errors 5, 3, 4, 3, 6: epoch 2 is best (an equal error is no better), patience 3 ends after epoch 5."""
    errors = iter([5.0, 3.0, 4.0, 3.0, 6.0, 1.0])
    weights = []

    def scripted(model: torch.nn.Module, *args: object) -> tuple[torch.Tensor, torch.Tensor]:
        weights.append({k: v.clone() for k, v in model.state_dict().items()})
        return (torch.full((4,), next(errors)),) * 2

    monkeypatch.setattr("quadnorm.training.loop.errors", scripted)
    result = train(tiny("epochs=30", "patience=3"), tmp_path, progress=False)
    assert (result.ended, result.epochs, result.best_epoch, result.best_val) == ("patience", 5, 2, 3.0)
    assert [r["best"] for r in result.history] == [True, True, False, False, False]
    for which, epoch in (("best", 2), ("last", 5)):
        model, _ = load_model(tmp_path, which)
        assert all(torch.equal(v, weights[epoch - 1][k]) for k, v in model.state_dict().items())


def test_a_finished_run_returns_without_training(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = train(tiny(), tmp_path, progress=False)
    monkeypatch.setattr(Loop, "run", lambda self: pytest.fail("trained again"))
    assert train(tiny("threads=null", "save.epochs=7"), tmp_path, progress=False) == first


def test_starting_again(tiny: Tiny, tmp_path: Path) -> None:
    train(tiny(), tmp_path / "a", progress=False)
    with pytest.raises(
        ValueError, match="holds a run with another config: epochs is 3 there and 2 now; choose another"
    ):
        train(tiny("epochs=2"), tmp_path / "a", progress=False)
    with pytest.raises(
        ValueError, match=r"operator.params.norm is 'instance' there and 'quad' now \(2 settings differ\)"
    ):
        train(tiny("operator.params.norm=quad", "seed=3"), tmp_path / "a", progress=False)
    again = train(tiny("epochs=2"), tmp_path / "a", resume=False, progress=False)
    assert len(again.history) == 2
    assert len((tmp_path / "a" / "metrics.jsonl").read_text().splitlines()) == 2


def test_a_checkpoint_states_where_it_comes_from(tiny: Tiny, tmp_path: Path) -> None:
    train(tiny(), tmp_path, progress=False)
    _, info = read_checkpoint(tmp_path / "best.safetensors")
    assert info["environment"]["packages"]["torch"] == torch.__version__
    assert info["environment"]["threads"] == 1
    assert info["environment"]["numerics"] == NUMERICS
    assert info["config"] == tiny().model_dump(mode="json")
    assert info["sizes"] == {"in_channels": 1, "out_channels": 1, "dim": 2, "placement": "endpoint"}


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("problem.name=posson", "unknown problem 'posson'; did you mean 'poisson'?"),
        ("problem.params.modse=3", "unknown parameter 'modse'"),
        ("resolutions.test=1", "poisson: resolution must be an int or 2 ints"),
        ("resolutions.train=[[3, 3, 3]]", "poisson: resolution must be an int or 2 ints"),
        ("operator.params.norm=qaud", "operator.params for fno: unknown norm 'qaud'; did you mean 'quad'?"),
        ("device=abacus", "unknown device 'abacus'"),
    ],
)
def test_what_is_wrong_shows_before_anything_is_written(tiny: Tiny, tmp_path: Path, override: str, line: str) -> None:
    with pytest.raises(ValueError, match=line) as caught:
        train(tiny(override), tmp_path / "run")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()
