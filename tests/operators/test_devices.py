"""Operators on another device: nothing mixes devices, and no value is read back to the host."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode

from quadnorm import Anchored
from quadnorm.operators import FNO, GalerkinTransformer, Transolver

aten = torch.ops.aten
MODELS = {
    # The FNO's matrices are an autograd function, inside which a build for the CPU asks for the driver after all: for
    # them there are the tests on the meta device.
    "fno by fft": lambda **o: FNO(width=8, modes=4, layers=2, backend="fft", **o),
    "galerkin": lambda **o: GalerkinTransformer(width=16, heads=2, layers=1, **o),
    "transolver": lambda **o: Transolver(width=16, heads=2, layers=1, slices=4, **o),
}


def _indexed(x, index):
    """x[index] for integers, slices, None and the ellipsis, without Python's own indexing."""
    index = index if isinstance(index, tuple) else (index,)
    used, dim = sum(i is not None and i is not Ellipsis for i in index), 0
    ndim = x.ndim
    for i in index:
        if i is None:
            x, dim = aten.unsqueeze(x, dim), dim + 1
        elif i is Ellipsis:
            dim += ndim - used
        elif isinstance(i, int):
            x = aten.select.int(x, dim, i)
        else:
            x, dim = aten.slice.Tensor(x, dim, i.start, i.stop, i.step or 1), dim + 1
    return x


class WithoutADriver(TorchFunctionMode):
    """Indexing asks for the device's driver before it reaches a fake tensor, which needs none."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        return (_indexed if function is torch.Tensor.__getitem__ else function)(*args, **(kwargs or {}))


def onto(model, device):
    """The model with fake parameters and buffers of a device; drawing them there would take its driver."""
    for module in model.modules():
        for name, p in module._parameters.items():
            if p is not None:
                fake = torch.empty(p.shape, dtype=p.dtype, device=device)
                module._parameters[name] = torch.nn.Parameter(fake, requires_grad=False)
        for name, b in module._buffers.items():
            if b is not None:
                module._buffers[name] = torch.empty(b.shape, dtype=b.dtype, device=device)
    return model


@pytest.mark.parametrize(
    ("name", "measure"),
    [
        ("fno by fft", "counting"),
        ("galerkin", "trapezoid"),
        ("galerkin", Anchored((9, 9))),
        ("transolver", "counting"),
        ("transolver", Anchored((9, 9))),
    ],
)
def test_fake_tensors_of_another_device(name, measure):
    """A fake tensor has no values: any read to the host raises, and so does a mix of devices."""
    model = MODELS[name](norm="quad:instance", measure=measure)
    with FakeTensorMode(), torch.no_grad(), WithoutADriver():
        y = onto(model, "cuda")(torch.empty(2, 1, 17, 12, device="cuda"))
        assert (y.device.type, y.shape) == ("cuda", (2, 1, 17, 12))


def test_a_mix_of_devices_is_seen():
    with FakeTensorMode(), WithoutADriver(), pytest.raises(Exception, match="device"):
        torch.empty(3, device="cuda") + torch.empty(3)
