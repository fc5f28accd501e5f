"""Training on points: padding is not there, volumes weigh where they should, and runs go from config to errors."""

import math
from pathlib import Path

import pytest
import torch

from quadnorm.operators import GalerkinTransformer, Transolver
from quadnorm.training import TrainConfig, evaluate, load_model, save_adapted, train
from quadnorm.training.data import problem_of, samples
from quadnorm.training.evaluation import evaluate_model
from quadnorm.training.losses import grid_weights, placement_weights, relative_l2, weights_of
from quadnorm.training.model import Normalised, Sizes, build_model
from quadnorm.training.model.points import OnPoints

D = torch.float64
MAKES = {"galerkin": GalerkinTransformer, "transolver": Transolver}


def config(**changes):
    given = {
        "problem": {"name": "poisson-mesh", "params": {"modes": 2, "fine": 6}, "cache": False},
        "operator": {"name": "transolver", "params": {"width": 8, "heads": 2, "layers": 1, "norm": "quad"}},
        "resolutions": {"train": [6], "test": [6, 9]},
        "samples": {"train": 8, "val": 2, "test": 3},
        "batch": 4,
        "epochs": 2,
        "threads": 1,
    }
    return TrainConfig(**{**given, **changes})


def cloud(sizes, width, seed=0):
    """Clouds of several sizes, padded to ``width`` with volume 0 and rubbish: (B, 1 + 2 + 1, width)."""
    g = torch.Generator().manual_seed(seed)
    x = torch.full((len(sizes), 4, width), 1e6, dtype=D)
    x[:, 0] = 0
    for b, n in enumerate(sizes):
        x[b, :, :n] = torch.rand(4, n, generator=g, dtype=D) + 0.05
    return x


def wrapped(name, norm, measure):
    torch.manual_seed(1)
    model = OnPoints(MAKES[name](1, 2, width=8, heads=2, layers=2, norm=norm, measure=measure), 1, 2).double()
    for p in model.parameters():
        if p.ndim > 1:
            torch.nn.init.normal_(p, std=0.5)
    return model


@pytest.mark.parametrize("name", MAKES)
@pytest.mark.parametrize(("norm", "measure"), [("layer", "counting"), ("quad", "counting"), ("quad", "trapezoid")])
def test_padded_is_each_sample_alone_and_zero_where_nothing_is(name, norm, measure):
    model = wrapped(name, norm, measure)
    x = cloud((5, 9), 9)
    y = model(x)
    assert y.shape == (2, 2, 9)
    assert (y[0, :, 5:] == 0).all()
    torch.testing.assert_close(y[:1, :, :5], model(x[:1, :, :5]), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", MAKES)
@pytest.mark.parametrize(
    ("norm", "measure", "doubled", "volumes"),
    [
        ("layer", "counting", False, False),
        ("layer", "trapezoid", False, True),
        ("quad", "counting", False, True),
        ("quad", "trapezoid", True, True),
    ],
)
def test_who_counts_and_who_weighs(name, norm, measure, doubled, volumes):
    """A point split into two halves of its volume changes nothing if all sums weigh, and something if any counts.

    Volumes matter, unless all sums count.
    """
    model = wrapped(name, norm, measure)
    x = cloud((7,), 7)
    split = torch.cat([x, x[..., -1:]], -1)
    split[0, 0, -2:] /= 2
    y, z = model(x), model(split)
    assert torch.allclose(z[..., :7], y, rtol=1e-6) == doubled
    other = x.clone()
    other[0, 0] = other[0, 0].flip(0)
    assert torch.allclose(model(other), y, rtol=1e-6) == (not volumes)


def test_a_measure_set_after_training_counts_at_the_next_call():
    model = wrapped("transolver", "layer", "counting")
    assert model.sums_count
    model.operator.measure = "trapezoid"
    assert not model.sums_count
    assert model.norms_count


def test_normalisers_see_the_points_that_are_there():
    """Field values of the two clouds by hand; padding holds a million."""
    x = cloud((5, 9), 9)
    y = x[:, 1:3] * torch.tensor([[2.0], [-3.0]], dtype=D)
    model = OnPoints(Transolver(1, 2, width=8, layers=1), 1, 2).double()
    model.fit(x, y)
    seen = torch.cat([x[0, 3, :5], x[1, 3, :9]])
    torch.testing.assert_close(model.x_mean, seen.mean()[None])
    torch.testing.assert_close(model.x_std, seen.std(correction=0)[None])
    seen = torch.cat([y[0, 1, :5], y[1, 1, :9]])
    torch.testing.assert_close(model.y_mean[1], seen.mean())


def test_errors_are_weighted_by_the_samples_own_volumes():
    """Errors (3, 0) and (0, 4) of a truth of ones, volumes (¾, ¼) in one sample and (¼, ¾) in the other."""
    x = torch.zeros(2, 4, 2, dtype=D)
    x[0, 0], x[1, 0] = torch.tensor([0.75, 0.25]), torch.tensor([0.25, 0.75])
    truth = torch.ones(2, 1, 2, dtype=D)
    error = torch.tensor([[[3.0, 0.0]], [[0.0, 4.0]]], dtype=D)
    assert grid_weights("points", (2,)) is None
    got = relative_l2(truth + error, truth, weights_of(x, None))
    torch.testing.assert_close(got, torch.tensor([math.sqrt(0.75 * 9), math.sqrt(0.75 * 16)], dtype=D))
    grid = placement_weights("endpoint", (3,))
    assert weights_of(x, grid) is grid


def test_sizes_and_models():
    p = problem_of(config())
    assert Sizes.of(p) == Sizes(1, 1, 2, "points")
    assert isinstance(build_model(config(), Sizes.of(p)), OnPoints)
    with pytest.raises(ValueError, match="choose galerkin or transolver"):
        build_model(config(operator={"name": "fno"}), Sizes.of(p))
    grid = build_model(config(operator={"name": "fno", "params": {"width": 4, "modes": 2}}), Sizes(1, 1, 2, "endpoint"))
    assert type(grid) is Normalised


@pytest.mark.parametrize("loss", ["plain", "weighted"])
def test_from_config_to_errors(tmp_path: Path, loss):
    tiny_config = config(loss=loss)
    result = train(tiny_config, tmp_path, progress=False)
    assert result.epochs == 2
    assert result.history[0]["val_weighted"] != result.history[0]["val"]
    model, _ = load_model(tmp_path)
    assert isinstance(model, OnPoints)
    evaluation = evaluate(tmp_path)
    assert [e.grid for e in evaluation.grids] == [6, 9]
    x, y = samples(tiny_config, "test", [9])[9]
    with torch.no_grad():
        gap = (model(x) - y).double()
    by_hand = ((x[:, 0] * gap[:, 0] ** 2).sum(1) / (x[:, 0] * y[:, 0] ** 2).sum(1)).sqrt()
    assert evaluation[9].weighted == pytest.approx(by_hand.tolist(), rel=1e-5)
    assert evaluation[9].plain != pytest.approx(by_hand.tolist(), rel=1e-3)
    with pytest.raises(ValueError, match="no grid to resample"):
        evaluate_model(model, tiny_config, [6], how="bicubic", source=9)
    assert evaluate(tmp_path, [9], view={"mesh": "boundary"})[9].plain != evaluation[9].plain
    with pytest.raises(ValueError, match="unknown sampling parameter 'modes'"):
        evaluate(tmp_path, [9], view={"modes": 3})
    with pytest.raises(ValueError, match="trained on meshes"):
        save_adapted(tmp_path, tmp_path / "adapted.safetensors", "anchored", 6)


def test_the_two_losses_train_different_weights(tmp_path: Path):
    for loss in ("plain", "weighted"):
        train(config(loss=loss), tmp_path / loss, progress=False)
    a, b = (load_model(tmp_path / loss)[0].state_dict() for loss in ("plain", "weighted"))
    assert any(not torch.equal(a[k], b[k]) for k in a)
