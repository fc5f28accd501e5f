"""The paper's claims in our words, and ours, as data: ``ledger.toml``, with its remarks in ``remarks.toml``; those of
other papers on the same question in ``field.toml``.

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
    source: str = ""  # of a claim that is neither the paper's nor ours: where it was made


def _read(name: str) -> dict[str, Any]:
    return loads(files("quadnorm.lab.analysis.claims").joinpath(name).read_text(encoding="utf-8"))


def _claim(data: Mapping[str, Any]) -> Claim:
    return Claim(
        data["name"],
        data["text"],
        tuple(data.get("tables", ())),
        tuple(Case.from_dict(case) for given in data["cases"] for case in _for_each(given)),
        tuple(data.get("remarks", ())),
        data.get("ours", False),
        data.get("source", ""),
    )


def _for_each(case: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """A case with ``each = [names]`` once for each name, which takes the place of every ``*`` in ``on`` and ``text``.

    >>> _for_each({"on": ["a/*", "b/*, twice"], "each": ["fno"], "text": "*: a → b"})
    [{'on': ['a/fno', 'b/fno, twice'], 'text': 'fno: a → b'}]
    """
    if "each" not in case:
        return [case]
    rest = {k: v for k, v in case.items() if k != "each"}
    places = [case["on"]] if isinstance(case["on"], str) else case["on"]
    return [
        {**rest, "on": [p.replace("*", name) for p in places], "text": case["text"].replace("*", name)}
        for name in case["each"]
    ]


CLAIMS: tuple[Claim, ...] = tuple(map(_claim, _read("ledger.toml")["claims"]))
FIELD: tuple[Claim, ...] = tuple(map(_claim, _read("field.toml")["claims"]))  # of other papers on the same question
_REMARKS = _read("remarks.toml")
CONTRADICTIONS: Mapping[str, str] = _REMARKS["contradictions"]
REASONS: Mapping[str, str] = _REMARKS["reasons"]
