"""Errors at other resolutions, against hand computation."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from quadnorm.carry import carry
from quadnorm.problems import problem
from quadnorm.training import TrainConfig, evaluate, evaluate_model, load_model, train

Tiny = Callable[..., TrainConfig]


@pytest.fixture
def run(tiny: Tiny, tmp_path: Path) -> Path:
    train(tiny("resolutions.test=[9, 17]"), tmp_path / "run", progress=False)
    return tmp_path / "run"


def by_hand(run: Path, x: torch.Tensor, y: torch.Tensor) -> tuple[list[float], list[float]]:
    n = x.shape[-1]
    w = torch.full((n,), 1 / (n - 1), dtype=torch.float64)
    w[[0, -1]] /= 2
    w = w[:, None] * w
    with torch.no_grad():
        gap = (load_model(run)[0](x) - y).double()
    plain = [float((g**2).sum().sqrt() / (u.double() ** 2).sum().sqrt()) for g, u in zip(gap, y, strict=True)]
    weighted = [
        float((w * g**2).sum().sqrt() / (w * u.double() ** 2).sum().sqrt()) for g, u in zip(gap, y, strict=True)
    ]
    return plain, weighted


def test_exact_evaluation(run: Path) -> None:
    evaluation = evaluate(run)
    assert [e.grid for e in evaluation.grids] == [9, 17]
    assert evaluation.indices == range(4)
    for n in (9, 17):
        plain, weighted = by_hand(run, *problem("poisson").sample(range(4), n))
        assert evaluation[n].plain == pytest.approx(plain, rel=1e-5)
        assert evaluation[n].weighted == pytest.approx(weighted, rel=1e-5)
        assert evaluation[n].mean == pytest.approx(sum(plain) / 4, rel=1e-5)
        assert evaluation[n].weighted_mean == pytest.approx(sum(weighted) / 4, rel=1e-5)


def test_index_selection_and_interpolation_take_input_and_truth_from_the_source(run: Path) -> None:
    x, y = problem("poisson").sample(range(4), 33)
    plain, _ = by_hand(run, x[..., ::2, ::2], y[..., ::2, ::2])
    assert evaluate(run, [17], how="index", source=33)[17].plain == pytest.approx(plain, rel=1e-5)

    evaluation = evaluate(run, [17, 25], how="bicubic", source=33)
    assert evaluation[17].plain == pytest.approx(plain, rel=1e-4)  # on nodes of the source it interpolates
    plain, weighted = by_hand(run, *(carry(v, (25, 25), "endpoint", "bicubic") for v in (x, y)))
    assert evaluation[25].plain == pytest.approx(plain, rel=1e-5)
    assert evaluation[25].weighted == pytest.approx(weighted, rel=1e-5)


def test_other_splits_and_weights(run: Path) -> None:
    plain, _ = by_hand(run, *problem("poisson").sample(range(4, 8), 9))
    assert evaluate(run, [9], split="val")[9].plain == pytest.approx(plain, rel=1e-5)
    assert evaluate(run, split="val")[9].mean == pytest.approx(train(load_model(run)[1], run).best_val, rel=1e-5)
    assert evaluate(run / "last.safetensors", [9]) == evaluate(run, [9], which="last")
    assert len(evaluate(run, [9], split="train")[9].plain) == 21


def test_a_model_in_memory(run: Path) -> None:
    config = load_model(run)[1]
    zero = evaluate_model(torch.zeros_like, config, [9, (5, 7)])
    assert zero[9].plain == (1.0,) * 4  # predicting nothing is 100 % wrong
    assert zero[(5, 7)].weighted == pytest.approx((1.0,) * 4)


def test_an_evaluation_is_written_whole(run: Path, tmp_path: Path) -> None:
    evaluation = evaluate(run)
    evaluation.write(tmp_path / "errors.json")
    data = json.loads((tmp_path / "errors.json").read_text())
    assert data["samples"] == [0, 4]
    assert [row["grid"] for row in data["errors"]] == [9, 17]
    assert data["errors"][1]["plain"] == list(evaluation[17].plain)


def test_wrong_requests(run: Path, tmp_path: Path) -> None:
    for options, line in (
        ({"how": "bilinear"}, "unknown way to evaluate 'bilinear'; .*Known: bicubic, exact, index"),
        ({"split": "tset"}, "unknown split 'tset'; did you mean 'test'?"),
        ({"which": "first"}, "which must be 'best' or 'last', got 'first'"),
        ({"resolutions": []}, "no resolution to evaluate at"),
        ({"resolutions": [1]}, "poisson: resolution must be"),
        ({"how": "index"}, "poisson has no grid of its own to resample from; give one, source=257"),
        ({"how": "index", "source": 9, "resolutions": [17]}, "cannot select 17 of 9 samples"),
    ):
        with pytest.raises(ValueError, match=line):
            evaluate(run, **options)  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError, match=r"no run folder or checkpoint .*nowhere"):
        evaluate(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match=r"holds no best\.safetensors; has the run finished an epoch\?"):
        evaluate(tmp_path)
    with pytest.raises(KeyError, match="not evaluated at 33; there are 9, 17"):
        evaluate(run)[33]
