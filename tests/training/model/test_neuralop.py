"""neuraloperator's FNO as an operator of a config."""

import pytest
import torch

from quadnorm.training import TrainConfig, load_model, train
from quadnorm.training.model import Sizes, build_model

pytest.importorskip("neuralop")

SMALL = {"width": 8, "modes": 4, "layers": 1}


def config(**params):
    return TrainConfig.model_validate(
        {
            "problem": {"name": "poisson", "cache": False},
            "operator": {"name": "neuralop-fno", "params": {**SMALL, **params}},
            "resolutions": {"train": [9]},
            "samples": {"train": 4, "val": 2, "test": 2},
            "batch": 2,
            "epochs": 2,
        }
    )


@pytest.mark.parametrize("norm", ["none", "group", "instance", "quad:instance"])
def test_trained_and_read_back(tmp_path, norm):
    """Weights stay complex, and its state is tensors that files can hold."""
    train(config(norm=norm), tmp_path / "run", progress=False)
    model, _ = load_model(tmp_path / "run")
    state = model.state_dict()
    assert all(isinstance(t, torch.Tensor) for t in state.values())
    assert any(t.is_complex() and t.imag.abs().max() > 0 for t in state.values())
    assert model(torch.randn(1, 1, 12, 12)).shape == (1, 1, 12, 12)


def test_inside_it_is_single_precision():
    double = config().model_copy(update={"dtype": "float64"})
    model = build_model(double, Sizes(1, 1, 2, "endpoint"))
    assert {t.dtype for t in model.parameters()} == {torch.float32, torch.complex64}
    assert model(torch.randn(1, 1, 9, 9, dtype=torch.float64)).dtype == torch.float64
