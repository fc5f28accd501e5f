"""Models of a config: weights from its seed, and parameters that are checked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from quadnorm.training import TrainConfig, train
from quadnorm.training.model import Sizes, build_model

Tiny = Callable[..., TrainConfig]


def test_a_model_depends_on_its_seed_alone(tiny: Tiny) -> None:
    sizes = Sizes(1, 1, 2, "endpoint")
    torch.manual_seed(1)
    a = build_model(tiny(), sizes).state_dict()
    torch.manual_seed(2)
    expected = torch.rand(1)
    torch.manual_seed(2)
    b = build_model(tiny(), sizes).state_dict()
    assert torch.equal(torch.rand(1), expected)  # the caller's random stream is untouched
    assert all(torch.equal(a[k], b[k]) for k in a)
    c = build_model(tiny("seed=1"), sizes).state_dict()
    assert any(not torch.equal(a[k], c[k]) for k in a)


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("operator.params.widht=3", "operator.params for fno: unknown parameter 'widht'; did you mean 'width'?"),
        ("operator.params.norm=qaud", "operator.params for fno: unknown norm 'qaud'; did you mean 'quad'?"),
        ("operator.params.dim=3", r"operator.params.dim is decided by the problem \(2\); leave it out"),
        ("operator.params.layers=0", "operator.params for fno: layers must be"),
    ],
)
def test_wrong_operator_parameters(tiny: Tiny, override: str, line: str) -> None:
    with pytest.raises(ValueError, match=line):
        build_model(tiny(override), Sizes(1, 1, 2, "endpoint"))


def test_a_grid_too_coarse_for_the_modes_is_refused_before_data_are_made(tiny: Tiny, tmp_path: Path) -> None:
    asked: list[object] = []
    with pytest.raises(ValueError, match=r"the fno of this config does not run at 9×9: modes=\(8, 8\) need at least"):
        train(tiny("operator.params.modes=8"), tmp_path / "run", data_progress=lambda *seen: asked.append(seen))
    assert asked == []
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["gpu", "cuda:x", "the big one"])
def test_a_device_that_does_not_exist_is_named(tiny: Tiny, tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match=f"unknown device '{name}'; use cpu, cuda"):
        train(tiny(f"device={name}"), tmp_path / "run")
