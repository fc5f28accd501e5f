"""Norms by name, class or partial."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

from torch import nn

from quadnorm._suggest import unknown
from quadnorm.measures import PLACEMENTS, RULES
from quadnorm.norms.baselines.bands import QuadBandNorm, RIBandNorm, SpectralNorm
from quadnorm.norms.baselines.learned import LearnableQuad, ResConditioned
from quadnorm.norms.baselines.uniform import GroupNorm, InstanceNorm, LayerNorm, NoNorm, RMSNorm, TokenNorm
from quadnorm.norms.layers import MODES, AnchoredNorm, BlendQuadNorm, QuadNorm, QuadRMSNorm

# The first word of a spec, and which kinds of words may follow it.
NORMS: dict[str, tuple[Callable[..., nn.Module], tuple[str, ...]]] = {
    "none": (NoNorm, ()),
    "layer": (LayerNorm, ()),
    "token": (TokenNorm, ()),
    "instance": (InstanceNorm, ()),
    "group": (GroupNorm, ("num_groups",)),
    "rms": (RMSNorm, ()),
    "quad": (QuadNorm, ("mode", "num_groups", "measure")),
    "blend": (BlendQuadNorm, ("alpha", "measure")),
    "anchored": (AnchoredNorm, ("anchor", "mode", "num_groups")),
    "quadrms": (QuadRMSNorm, ("mode", "num_groups", "measure")),
    "resconditioned": (ResConditioned, ()),
    "learnablequad": (LearnableQuad, ("measure",)),
    "spectral": (SpectralNorm, ()),
    "riband": (RIBandNorm, ()),
    "quadband": (QuadBandNorm, ("measure",)),
}
ALIASES = {"rms-quad": "quadrms", "identity": "none", "ri-band": "riband", "quad-band": "quadband", "wln": "quad"}

NormSpec = str | type[nn.Module] | Callable[..., nn.Module] | None


def norm_names() -> list[str]:
    """The names that :func:`make_norm` knows."""
    return sorted(NORMS)


def make_norm(spec: NormSpec, num_features: int, **options: Any) -> nn.Module:
    """A norm for ``num_features`` channels.

    ``spec`` is a name with words after colons, a class or partial that takes the number of channels first, or None for
    no norm:

    =====================================  ============================================================================
    ``none``, ``layer``, ``token``,        the paper's baselines; ``group:4`` has 4 groups
    ``instance``, ``group``, ``rms``
    ``quad``                               :class:`QuadNorm` in layer mode; ``quad:instance``, ``quad:group:8``,
    ``quad:simpson``,
                                           ``quad:instance:midpoint``
    ``blend``                              :class:`BlendQuadNorm`, α = 0.3; ``blend:0.1``, ``blend:learned``,
    ``blend:0.3:simpson``
    ``anchored:33``, ``anchored:33x65``    :class:`AnchoredNorm` of a training grid; ``anchored:33:instance``
    ``quadrms``                            :class:`QuadRMSNorm`; words as for ``quad``
    ``resconditioned``, ``learnablequad``  learned variants
    ``spectral``, ``riband``,              spectral variants
    ``quadband``
    =====================================  ============================================================================

    ``options`` go to the constructor, as in ``make_norm("quad", 32, layout="last")``.

    >>> make_norm("quad:instance", 32)
    QuadNorm(32, eps=1e-05, affine=True, mode='instance', measure=Grid('trapezoid'))
    """
    if spec is None:
        return NoNorm(num_features)
    if isinstance(spec, str):
        return parse(spec)(num_features, **options)
    if isinstance(spec, nn.Module):
        raise TypeError(
            f"got the module {type(spec).__name__} itself, which several places would then share; "
            f"pass its class, a partial or a name"
        )
    if not callable(spec):
        raise TypeError(f"a norm is given by a name, a class, a partial or None, got {spec!r}")
    norm = spec(num_features, **options)
    if not isinstance(norm, nn.Module):
        raise TypeError(f"{spec!r} made {norm!r} for {num_features} channels; expected an nn.Module")
    return norm


def parse(spec: str) -> Callable[..., nn.Module]:
    """The constructor that a name stands for, with what its words say bound."""
    name, *words = spec.strip().lower().split(":")
    name = ALIASES.get(name, name)
    if name not in NORMS:
        raise ValueError(unknown("norm", spec, [*NORMS, *ALIASES]))
    build, allowed = NORMS[name]
    found: dict[str, Any] = {}
    for word in words:
        key, value = _meaning(word, allowed, found, spec)
        found[key] = value
    if found.get("mode") == "group" and "num_groups" not in found:
        found["num_groups"] = 8
    if "num_groups" in found and "mode" in allowed and found.get("mode") != "group":
        raise ValueError(
            f"norm {spec!r} has a number of groups without the mode; write {name}:group:{found['num_groups']}"
        )
    if name == "anchored" and "anchor" not in found:
        raise ValueError(
            f"norm {spec!r} needs the training grid's samples per axis, as in 'anchored:33' or 'anchored:33x65'"
        )
    return partial(build, **found)


def _meaning(word: str, allowed: tuple[str, ...], found: dict[str, Any], spec: str) -> tuple[str, Any]:
    """Which argument a word gives, and its value."""
    readings: dict[str, tuple[bool, Callable[[], Any]]] = {
        "anchor": (re.fullmatch(r"\d+(x\d+)*", word) is not None, lambda: _anchor(word)),
        "mode": (word in MODES, lambda: word),
        "num_groups": (word.isdigit(), lambda: int(word)),
        "learn_alpha": (word == "learned", lambda: True),
        "alpha": (_is_number(word), lambda: float(word)),
        "measure": (word in RULES or word in PLACEMENTS, lambda: word),
    }
    keys = [*allowed, "learn_alpha"] if "alpha" in allowed else allowed
    for key, (fits, value) in readings.items():
        if key in keys and fits and key not in found:
            return key, value()
    hint = f"it may have: {', '.join(keys)}" if keys else "it takes no words after a colon"
    raise ValueError(f"norm {spec!r}: cannot read {word!r}; {hint}")


def _anchor(word: str) -> int | tuple[int, ...]:
    sizes = tuple(int(n) for n in word.split("x"))
    return sizes if len(sizes) > 1 else sizes[0]


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def is_norm(module: nn.Module) -> bool:
    """Whether a module is a norm of this package: its sums over space are the norms' and not a kernel's.

    >>> is_norm(make_norm("quad", 4)), is_norm(nn.Linear(4, 4))
    (True, False)
    """
    return type(module).__module__.startswith("quadnorm.norms")
