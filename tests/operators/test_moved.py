"""Operators that are moved, made without numbers, or given other memory formats, as models of PyTorch are."""

import numpy as np
import pytest
import torch

from quadnorm.operators import FNO
from quadnorm.operators.spectral.convolution import SpectralConv


def hermitian():
    return FNO(width=4, modes=3, layers=2, kernel="hermitian")


@pytest.mark.parametrize("how", ["to_empty", "assign"])
def test_tied_modes_of_a_model_made_without_numbers(how):
    model, x = hermitian(), torch.randn(2, 1, 8, 9)
    with torch.device("meta"):
        other = hermitian()
    if how == "to_empty":
        other.to_empty(device="cpu")
        for name, buffer in other.named_buffers():  # memory that was never written holds anything
            assert torch.equal(buffer, model.get_buffer(name))
    other.load_state_dict(model.state_dict(), assign=how == "assign")
    assert torch.equal(other(x), model(x))


def test_channels_last():
    model, x = FNO(width=4, modes=3, layers=1), torch.randn(2, 1, 8, 9)
    expected = model(x)
    model.to(memory_format=torch.channels_last)
    assert torch.equal(model(x.to(memory_format=torch.channels_last)), expected)
    assert model.double().blocks[0].spectral.weight.dtype == torch.complex128
    model.half()  # no complex numbers of half precision
    assert model.blocks[0].spectral.weight.dtype == torch.complex128


def test_whole_numbers_of_numpy():
    layer = SpectralConv(2, 2, [np.int64(3), np.int64(2)])
    assert layer.modes.kept == (3, 2)
    assert FNO(width=4, modes=np.int64(3), layers=1)(torch.randn(1, 1, 8, 8)).shape == (1, 1, 8, 8)
    with pytest.raises(ValueError, match="whole numbers"):
        SpectralConv(2, 2, 3.0)
