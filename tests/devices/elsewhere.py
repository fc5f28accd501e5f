"""A device that exists in name only: fake tensors on it have shapes, gradients and autocast, and no values to read.

Run as a script, since the name belongs to the whole process. Any mix of devices and any read to the host raises.
"""

import os
import sys

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode

from quadnorm.norms import make_norm
from quadnorm.operators import FNO, GalerkinTransformer, Transolver

HALF = (torch.float16, torch.bfloat16)


class Backend(backend_registration._DummyBackendModule):
    def get_amp_supported_dtype(self):
        return list(HALF)


class Sums(TorchDispatchMode):
    """The dtypes in which sums over samples are taken."""

    def __init__(self):
        super().__init__()
        self.dtypes = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if func._schema.name in ("aten::sum", "aten::mean", "aten::var_mean", "aten::native_group_norm"):
            self.dtypes.add(args[0].dtype)
        return out


def models():
    for norm in ("quad", "blend", "rms", "anchored:9", "layer", "instance"):
        yield norm, make_norm(norm, 4), 4
    yield "FNO", FNO(1, 1, width=8, modes=3, layers=2, norm="quad"), 1
    yield "FNO anchored", FNO(1, 1, width=8, modes=3, layers=2, norm="anchored:9"), 1
    yield "FNO trapezoid", FNO(1, 1, width=8, modes=3, layers=2, norm="blend", measure="trapezoid"), 1
    yield "Galerkin", GalerkinTransformer(1, 1, width=8, heads=2, layers=2, norm="quad", measure="trapezoid"), 1
    yield "Transolver", Transolver(1, 1, width=8, heads=2, layers=2, slices=4, norm="layer", measure="trapezoid"), 1


def step(model, channels, n, autocast):
    """One training step; the norms' sums are float32 also where the rest is not."""
    named = (*model.named_parameters(), *model.named_buffers())
    kinds = {k: (tuple(v.shape), v.dtype, isinstance(v, torch.nn.Parameter)) for k, v in named}
    with FakeTensorMode():
        state = {
            k: torch.empty(shape, dtype=dtype, device="elsewhere").requires_grad_(learned)
            for k, (shape, dtype, learned) in kinds.items()
        }
        x = torch.empty(2, channels, n, n, device="elsewhere", requires_grad=True)
        with torch.autocast("elsewhere", dtype=torch.bfloat16, enabled=autocast), Sums() as sums:
            # A norm follows a layer that autocast has made short; the stand-in itself does not cast.
            y = torch.func.functional_call(model, state, (x.to(torch.bfloat16) if autocast and channels == 4 else x,))
        y.float().sum().backward()
        gradients = [x.grad, *(v.grad for k, v in state.items() if kinds[k][2])]
    assert y.device.type == "elsewhere"
    assert y.shape == x.shape
    assert all(g is not None and g.device.type == "elsewhere" for g in gradients)
    return sums.dtypes


if __name__ == "__main__":
    backend_registration._setup_privateuseone_for_python_backend("elsewhere", Backend())
    everything = torch.library.Library("_", "IMPL")
    everything.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    for name, model, channels in models():
        for n in (9, 12):
            for autocast in (False, True):
                dtypes = step(model, channels, n, autocast)
                if channels == 4:
                    assert not dtypes & set(HALF), (name, dtypes)
        print(name)
    # PyTorch's own threads for the device may still run when the interpreter ends, which then aborts now and then.
    sys.stdout.flush()
    os._exit(0)
