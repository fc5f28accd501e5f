"""Neural operators whose sums over space use a measure: FNO, Galerkin Transformer, Transolver; and a ResNet."""

from quadnorm.operators.fno import FNO
from quadnorm.operators.galerkin import GalerkinAttention, GalerkinTransformer
from quadnorm.operators.pointwise import Pointwise, PointwiseMLP
from quadnorm.operators.resnet import ResNet
from quadnorm.operators.samples import Samples, grid_to_tokens, tokens_to_grid
from quadnorm.operators.spectral.convolution import SpectralConv
from quadnorm.operators.transolver import SliceAttention, Transolver

__all__ = [
    "FNO",
    "GalerkinAttention",
    "GalerkinTransformer",
    "Pointwise",
    "PointwiseMLP",
    "ResNet",
    "Samples",
    "SliceAttention",
    "SpectralConv",
    "Transolver",
    "grid_to_tokens",
    "tokens_to_grid",
]
