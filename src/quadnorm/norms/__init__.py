"""Normalization layers: one weighted core, measures of every kind, and the paper's baselines."""

from quadnorm.norms.anchored import AnchoredNorm
from quadnorm.norms.baselines.bands import QuadBandNorm, RIBandNorm, SpectralNorm
from quadnorm.norms.baselines.learned import LearnableQuad, ResConditioned
from quadnorm.norms.baselines.uniform import GroupNorm, InstanceNorm, LayerNorm, NoNorm, RMSNorm, TokenNorm
from quadnorm.norms.blend import BlendQuadNorm
from quadnorm.norms.factory import make_norm, norm_names
from quadnorm.norms.functional import quad_norm
from quadnorm.norms.quad import QuadNorm
from quadnorm.norms.ragged import quad_norm_ragged
from quadnorm.norms.rms import QuadRMSNorm

__all__ = [
    "AnchoredNorm",
    "BlendQuadNorm",
    "GroupNorm",
    "InstanceNorm",
    "LayerNorm",
    "LearnableQuad",
    "NoNorm",
    "QuadBandNorm",
    "QuadNorm",
    "QuadRMSNorm",
    "RIBandNorm",
    "RMSNorm",
    "ResConditioned",
    "SpectralNorm",
    "TokenNorm",
    "make_norm",
    "norm_names",
    "quad_norm",
    "quad_norm_ragged",
]
