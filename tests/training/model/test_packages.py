"""Models of other packages as operators of a config."""

from importlib.util import find_spec

import pytest
import torch

from quadnorm.training import TrainConfig, load_model, train
from quadnorm.training.model import Sizes, build_model, operator_class, outline

PACKAGES = {"neuralop-fno": "neuralop", "physicsnemo-fno": "physicsnemo"}
ROWS = [("neuralop-fno", norm) for norm in ("none", "group", "instance", "quad:instance")] + [
    ("physicsnemo-fno", "none")
]


def config(name, **params):
    if find_spec(PACKAGES[name]) is None:  # not imported here: a run imports it where tensors have no values
        pytest.skip(f"{PACKAGES[name]} is not installed")
    return TrainConfig.model_validate(
        {
            "problem": {"name": "poisson", "cache": False},
            "operator": {"name": name, "params": {"width": 8, "modes": 4, "layers": 1, **params}},
            "resolutions": {"train": [9]},
            "samples": {"train": 4, "val": 2, "test": 2},
            "batch": 2,
            "epochs": 2,
        }
    )


@pytest.mark.filterwarnings("ignore")  # what other packages warn of is theirs
@pytest.mark.parametrize(("name", "norm"), ROWS)
def test_trained_and_read_back(tmp_path, name, norm):
    """Weights stay complex where they are, and the state is tensors that files can hold."""
    chosen = config(name, norm=norm)
    train(chosen, tmp_path / "run", progress=False)
    model, _ = load_model(tmp_path / "run")
    state = model.state_dict()
    assert state.keys() == outline(chosen, Sizes(1, 1, 2, "endpoint")).keys()
    assert all(isinstance(t, torch.Tensor) for t in state.values())
    if name == "neuralop-fno":
        assert any(t.is_complex() and t.imag.abs().max() > 0 for t in state.values())
    assert model(torch.randn(1, 1, 12, 12)).shape == (1, 1, 12, 12)


def test_inside_neuraloperators_it_is_single_precision():
    double = config("neuralop-fno").model_copy(update={"dtype": "float64"})
    model = build_model(double, Sizes(1, 1, 2, "endpoint"))
    assert {t.dtype for t in model.parameters()} == {torch.float32, torch.complex64}
    assert model(torch.randn(1, 1, 9, 9, dtype=torch.float64)).dtype == torch.float64


@pytest.mark.filterwarnings("ignore")
def test_physicsnemos_is_that_of_its_example():
    """Its darcy_fno: 4 layers of 32 channels with 12 modes, 9 samples of padding, a decoder of one layer of 32."""
    fno = pytest.importorskip("physicsnemo.models.fno", exc_type=ImportError).FNO
    torch.manual_seed(0)
    ours = operator_class("physicsnemo-fno")()
    torch.manual_seed(0)
    theirs = fno(1, 1, decoder_layers=1, decoder_layer_size=32, dimension=2, latent_channels=32, num_fno_layers=4,
                 num_fno_modes=12, padding=9)  # fmt: skip
    x = torch.randn(1, 1, 24, 24)
    with torch.no_grad():
        assert torch.equal(ours(x), theirs(x))


def test_a_norm_that_physicsnemos_fno_does_not_have():
    with pytest.raises(ValueError, match="has no norms; expected norm 'none', got 'quad'"):
        operator_class("physicsnemo-fno")(norm="quad")
