"""neuraloperator's modules: anchored spectral convolutions, norms, coordinates and padding, and QuadNorm for its
models' ``norm`` argument.

The only folder that imports neuraloperator; :func:`quadnorm.anchor` loads it when a model contains its modules.
"""

try:
    import neuralop as _  # noqa: F401
except ImportError:
    raise ImportError("this needs neuraloperator: pip install 'quadnorm[compat]'") from None

from quadnorm.adapt.anchoring.neuralop import coordinates, norms, padding  # noqa: F401  # their rules
from quadnorm.adapt.anchoring.neuralop.spectral import AnchoredSpectralConv
from quadnorm.adapt.anchoring.neuralop.training import use_quadnorm

__all__ = ["AnchoredSpectralConv", "use_quadnorm"]
