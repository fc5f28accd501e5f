"""The paper's claims in our words, and ours, as data: ``ledger.toml``, with its remarks in ``remarks.toml``.

A claim has cases, and each names a rule (:mod:`quadnorm.lab.analysis.claims.rules`), a setting and the rule's options.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from tomllib import loads
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quadnorm.lab.analysis.claims.evidence import Setting

QUAD, LAYER = "QuadNorm", "LayerNorm"


@dataclass(frozen=True)
class Case:
    """One piece of evidence: a rule, the settings (study, variant) that it reads, and its options."""

    rule: str
    settings: tuple[tuple[str, str], ...]
    options: Mapping[str, Any]

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Case:
        """A case of the file: ``on = "study/variant"``, or a list of them; the variant is ``main`` if not named."""
        options = {k: v for k, v in data.items() if k not in ("rule", "on")}
        places = data.get("on", [])
        named = [places] if isinstance(places, str) else places
        settings = tuple((study, variant or "main") for study, _, variant in (p.partition("/") for p in named))
        return cls(data["rule"], settings, options)

    def rows(self, setting: Setting) -> tuple[str, ...]:
        """The paper's rows that the rule compares, of those that the setting has."""
        named = (self.options.get("method", QUAD), self.options.get("baseline", LAYER))
        if self.rule in ("best", "degrades_least"):
            return tuple(setting.rows())
        return tuple(m.label for m in setting.variant.methods if m.label in named)


@dataclass(frozen=True)
class Claim:
    """One claim in our words. ``remarks`` are keys of ``CONTRADICTIONS`` that bear on it."""

    name: str
    text: str
    tables: tuple[str, ...]
    cases: tuple[Case, ...]
    remarks: tuple[str, ...] = ()
    ours: bool = False


def _read(name: str) -> dict[str, Any]:
    return loads(files("quadnorm.lab.analysis.claims").joinpath(name).read_text(encoding="utf-8"))


def _claim(data: Mapping[str, Any]) -> Claim:
    return Claim(
        data["name"],
        data["text"],
        tuple(data.get("tables", ())),
        tuple(map(Case.from_dict, data["cases"])),
        tuple(data.get("remarks", ())),
        data.get("ours", False),
    )


CLAIMS: tuple[Claim, ...] = tuple(map(_claim, _read("ledger.toml")["claims"]))
_REMARKS = _read("remarks.toml")
CONTRADICTIONS: Mapping[str, str] = _REMARKS["contradictions"]
REASONS: Mapping[str, str] = _REMARKS["reasons"]
