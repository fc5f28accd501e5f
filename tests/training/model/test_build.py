"""Models of a config: weights from its seed, and parameters that are checked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import quadnorm as qn
from quadnorm.training import TrainConfig, evaluate, load_model, train
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


OWN = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, in_channels=1, out_channels=1, width: "Width" = 4, **options):
        super().__init__()
        self.first, self.last = nn.Conv2d(in_channels, width, 1), nn.Conv2d(width, out_channels, 1)
        self.kernel = nn.Parameter(torch.randn(width, 3, 3, dtype=torch.cfloat) / 9)
        self.norm = nn.GroupNorm(1, width)

    def forward(self, x):
        v = self.first(x)
        waves = torch.zeros_like(torch.fft.rfft2(v))
        waves[..., :3, :3] = torch.fft.rfft2(v)[..., :3, :3] * self.kernel
        return self.last(torch.relu(self.norm(v + torch.fft.irfft2(waves, s=v.shape[-2:]))))

class Shrinks(Net):
    def forward(self, x):
        return super().forward(x)[..., 1:]

class Fails(Net):
    def forward(self, x):
        raise KeyError("nothing here")

def reads_values(scale=2.0):
    net = Net()
    net.scale = float(torch.tensor(scale).item())   # not possible on the meta device
    return net

def number():
    return 3
"""


@pytest.fixture
def own(tmp_path: Path) -> str:
    file = tmp_path / "own_model.py"
    file.write_text(OWN, encoding="utf-8")
    return str(file)


def test_a_model_of_your_own_trains_resumes_loads_and_goes_to_other_grids(tiny: Tiny, tmp_path: Path, own: str) -> None:
    def config(*more: str) -> TrainConfig:
        plain = tiny(*more).model_dump()
        return TrainConfig(**{**plain, "operator": {"name": f"{own}:Net", "params": {"width": 6}}})

    train(config("epochs=2"), tmp_path / "run", progress=False)
    model, read = load_model(tmp_path / "run")
    assert read.operator.name == f"{own}:Net"
    assert read.lr == 5e-4
    assert sum(p.numel() for p in model.parameters()) == sum(
        p.numel() for p in build_model(config(), Sizes(1, 1, 2, "endpoint")).parameters()
    )
    at_training_grid, finer = evaluate(tmp_path / "run", [9, 17]).grids
    assert at_training_grid.mean > 0
    assert finer.mean > 0
    x = torch.randn(2, 1, 9, 9)
    assert torch.allclose(qn.extend(model, 9, "endpoint")(x), model(x))


def test_a_changed_file_of_a_model_is_said(
    tiny: Tiny, tmp_path: Path, own: str, caplog: pytest.LogCaptureFixture
) -> None:
    config = TrainConfig(**{**tiny("epochs=1").model_dump(), "operator": {"name": f"{own}:Net", "params": {}}})
    train(config, tmp_path / "run", progress=False)
    load_model(tmp_path / "run")
    assert "has changed" not in caplog.text
    Path(own).write_text(OWN + "\n# a new line\n", encoding="utf-8")
    load_model(tmp_path / "run")
    assert f"{own} has changed since" in caplog.text


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("Shrinks", r"gives \(1, 1, 9, 8\) for an input of shape \(1, 1, 9, 9\); training needs fields with channels"),
        ("Fails", "raised KeyError on an input of shape .* one sample at 9×9: 'nothing here'"),
        ("number", "gave int, expected a torch.nn.Module"),
        ("Missing", "has no 'Missing', a class of models, or a function that makes one; it has: Net"),
    ],
)
def test_models_of_your_own_that_cannot_be_trained(tiny: Tiny, tmp_path: Path, own: str, name: str, line: str) -> None:
    config = TrainConfig(**{**tiny().model_dump(), "operator": {"name": f"{own}:{name}", "params": {}}})
    with pytest.raises(ValueError, match=line):
        train(config, tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()


def test_a_function_that_reads_values_makes_a_model(tiny: Tiny, tmp_path: Path, own: str) -> None:
    settings = {"name": f"{own}:reads_values", "params": {"scale": 3.0}}
    train(TrainConfig(**{**tiny("epochs=1").model_dump(), "operator": settings}), tmp_path / "run", progress=False)
    model, _ = load_model(tmp_path / "run")
    assert model.operator.scale == 3.0
