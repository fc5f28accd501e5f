"""One small model of each kind, and checks that several of their tests share."""

import pytest
import torch

from quadnorm.operators import FNO, GalerkinTransformer, Transolver

MODELS = {
    "fno": lambda **o: FNO(width=4, modes=2, layers=2, projection=8, **o),
    "hermitian": lambda **o: FNO(width=4, modes=2, layers=2, projection=8, kernel="hermitian", **o),
    "galerkin": lambda **o: GalerkinTransformer(width=8, heads=2, layers=1, projection=8, **o),
    "transolver": lambda **o: Transolver(width=8, heads=2, layers=1, **o),
}
# What torch itself warns about when parts of it are first used.
OWN_WARNINGS = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


def build(name, **options):
    torch.manual_seed(0)
    return MODELS[name](**options)


def gradients_are_right(model, x):
    """Derivatives of model(x) by x and by every parameter, against differences."""
    names, values = zip(*model.named_parameters(), strict=True)

    def f(x, *parameters):
        return torch.func.functional_call(model, dict(zip(names, parameters, strict=True)), (x,))

    return torch.autograd.gradcheck(f, (x, *(v.detach().requires_grad_() for v in values)), fast_mode=True)
