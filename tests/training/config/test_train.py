"""The paper's protocol as defaults, and what follows from a setting."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from quadnorm.training import TrainConfig, read_config


def test_the_papers_protocol_is_the_default() -> None:
    config = TrainConfig()
    assert (config.optimiser.weight_decay, config.optimiser.clip, config.batch) == (1e-4, 1.0, 20)
    assert config.loss == "plain"
    assert config.patience == 30
    rates = {name: TrainConfig(operator={"name": name}).lr for name in ("fno", "galerkin", "transolver")}  # type: ignore[arg-type]
    assert rates == {"fno": 5e-4, "galerkin": 3e-4, "transolver": 3e-4}
    assert read_config(None, ["optimiser.lr=0.01", "operator.name=galerkin"]).lr == 0.01


@pytest.mark.parametrize(("epochs", "warmup"), [(500, 10.0), (100, 10.0), (50, 5.0), (1, 0.1)])
def test_warm_up_is_ten_epochs_or_a_tenth(epochs: int, warmup: float) -> None:
    assert TrainConfig(epochs=epochs).warmup_epochs == warmup


def test_a_config_is_frozen() -> None:
    with pytest.raises(ValidationError):
        TrainConfig().epochs = 3
