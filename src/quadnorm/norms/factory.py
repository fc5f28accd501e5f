"""Norms by name, class or partial."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

from torch import nn

from quadnorm._suggest import unknown
from quadnorm.measures import PLACEMENTS, RULES
from quadnorm.norms.anchored import AnchoredNorm
from quadnorm.norms.baselines.bands import QuadBandNorm, RIBandNorm, SpectralNorm
from quadnorm.norms.baselines.learned import LearnableQuad, ResConditioned
from quadnorm.norms.baselines.uniform import GroupNorm, InstanceNorm, LayerNorm, NoNorm, RMSNorm, TokenNorm
from quadnorm.norms.blend import BlendQuadNorm
from quadnorm.norms.quad import MODES, QuadNorm
from quadnorm.norms.rms import QuadRMSNorm

# Names, and which options may follow them.
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

    ``spec`` is None for no norm, a class or partial that takes the number of channels first, or a name with options
    after colons:

    =====================  ===========================  ============================================================
    name                   with options                 norm
    =====================  ===========================  ============================================================
    ``none``                                            :class:`NoNorm`, the identity
    ``layer``                                           :class:`LayerNorm` over (C, *spatial)
    ``token``                                           :class:`TokenNorm`, over the channels of each sample
    ``instance``                                        :class:`InstanceNorm`
    ``group``              ``group:4``                  :class:`GroupNorm`; the number of groups, default 8
    ``rms``                                             :class:`RMSNorm`
    ``quad``               ``quad:instance:midpoint``   :class:`QuadNorm`; mode, number of groups (``quad:group:8``),
                                                        rule; default layer mode and the trapezoid rule
    ``blend``              ``blend:0.1:simpson``        :class:`BlendQuadNorm`; α (default 0.3) or ``learned``, rule
    ``anchored``           ``anchored:33x65:instance``  :class:`AnchoredNorm`; the training grid (needed), mode
    ``quadrms``            ``quadrms:layer``            :class:`QuadRMSNorm`; options as for ``quad``
    ``resconditioned``                                  :class:`ResConditioned`
    ``learnablequad``      ``learnablequad:simpson``    :class:`LearnableQuad`; rule
    ``spectral``                                        :class:`SpectralNorm`
    ``riband``                                          :class:`RIBandNorm`
    ``quadband``           ``quadband:simpson``         :class:`QuadBandNorm`; rule
    =====================  ===========================  ============================================================

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
        raise TypeError(f"{spec!r} returned {norm!r} for {num_features} channels; expected an nn.Module")
    return norm


def parse(spec: str) -> Callable[..., nn.Module]:
    """The constructor that a name stands for, with its options bound."""
    name, *options = spec.strip().lower().split(":")
    name = ALIASES.get(name, name)
    if name not in NORMS:
        raise ValueError(unknown("norm", spec, [*NORMS, *ALIASES]))
    build, allowed = NORMS[name]
    arguments: dict[str, Any] = {}
    for option in options:
        key, value = _meaning(option, allowed, arguments, spec)
        arguments[key] = value
    if arguments.get("mode") == "group" and "num_groups" not in arguments:
        arguments["num_groups"] = 8
    if "num_groups" in arguments and "mode" in allowed and arguments.get("mode") != "group":
        raise ValueError(
            f"norm {spec!r} has a number of groups without the mode; write {name}:group:{arguments['num_groups']}"
        )
    if name == "anchored" and "anchor" not in arguments:
        raise ValueError(
            f"norm {spec!r} needs the training grid's samples per axis, as in 'anchored:33' or 'anchored:33x65'"
        )
    return partial(build, **arguments)


def _meaning(option: str, allowed: tuple[str, ...], bound: dict[str, Any], spec: str) -> tuple[str, Any]:
    """Which argument an option gives, and its value; ``bound`` holds the arguments that earlier options gave."""
    readings: dict[str, tuple[bool, Callable[[], Any]]] = {
        "anchor": (re.fullmatch(r"\d+(x\d+)*", option) is not None, lambda: _anchor(option)),
        "mode": (option in MODES, lambda: option),
        "num_groups": (option.isdigit(), lambda: int(option)),
        "learn_alpha": (option == "learned", lambda: True),
        "alpha": (_is_number(option), lambda: float(option)),
        "measure": (option in RULES or option in PLACEMENTS, lambda: option),
    }
    keys = [*allowed, "learn_alpha"] if "alpha" in allowed else allowed
    for key, (fits, value) in readings.items():
        if key in keys and fits and key not in bound:
            return key, value()
    hint = f"it may have: {', '.join(_OPTIONS[k] for k in keys)}" if keys else "it takes no options after a colon"
    raise ValueError(f"norm {spec!r}: cannot read {option!r}; {hint}")


_OPTIONS = {
    "anchor": "the training grid, as in 33 or 33x65",
    "mode": "a mode (layer, instance, group)",
    "num_groups": "a number of groups",
    "alpha": "alpha, a number from 0 to 1",
    "learn_alpha": "learned",
    "measure": "a rule, as in simpson",
}


def _anchor(text: str) -> int | tuple[int, ...]:
    sizes = tuple(int(n) for n in text.split("x"))
    return sizes if len(sizes) > 1 else sizes[0]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def is_norm(module: nn.Module) -> bool:
    """Whether a module is a norm of this package: its sums over space are the norms' and not a kernel's.

    >>> is_norm(make_norm("quad", 4)), is_norm(nn.Linear(4, 4))
    (True, False)
    """
    return type(module).__module__.startswith("quadnorm.norms")
