"""Normalization layers: one weighted core, measures of every kind, and the paper's baselines."""

from quadnorm.norms.baselines.bands import QuadBandNorm, RIBandNorm, SpectralNorm
from quadnorm.norms.baselines.learned import LearnableQuad, ResConditioned
from quadnorm.norms.baselines.uniform import GroupNorm, InstanceNorm, LayerNorm, NoNorm, RMSNorm, TokenNorm
from quadnorm.norms.factory import make_norm, norm_names
from quadnorm.norms.functional import quad_norm, quad_norm_ragged
from quadnorm.norms.layers import AnchoredNorm, BlendQuadNorm, QuadNorm, QuadRMSNorm

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
