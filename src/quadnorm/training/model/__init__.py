"""Models of a config: the operator that it names, between the normalisers of its data."""

from quadnorm.training.model.build import Sizes, build_model, operator_class, outline
from quadnorm.training.model.normalised import Normalised, moments

__all__ = ["Normalised", "Sizes", "build_model", "moments", "operator_class", "outline"]
