"""Every claim of the ledger judged on records: under the best-fitting reading of each table, and under the listing's.

The claims are data: the paper's in our words and ours in ``ledger.toml``, those of other papers on the same question in
``field.toml``, remarks in ``remarks.toml``. A claim has cases, and each names a rule
(:mod:`quadnorm.lab.analysis.claims.rules`), a setting and the rule's options.

The reading is chosen by the same records that the claim is judged by, so intervals widen with the number of readings
that were tried: false "reproduced" stay below 5 % whichever is chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from quadnorm.lab import read_table
from quadnorm.lab.analysis.claims import gains, likeness  # noqa: F401 (they register their rules)
from quadnorm.lab.analysis.claims.evidence import Reading, Setting
from quadnorm.lab.analysis.claims.readings import best_reading, distances, listing_for, tries
from quadnorm.lab.analysis.claims.rules import RULES
from quadnorm.lab.analysis.claims.verdicts import CONTRADICTED, NOT_RUN, NOT_TESTABLE, PARTLY, Finding, together
from quadnorm.lab.analysis.results import Library

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


CLAIMS: tuple[Claim, ...] = tuple(map(_claim, read_table("analysis/claims/ledger.toml")["claims"]))
FIELD: tuple[Claim, ...] = tuple(
    map(_claim, read_table("analysis/claims/field.toml")["claims"])
)  # of other papers on the same question
_REMARKS = read_table("analysis/claims/remarks.toml")
CONTRADICTIONS: Mapping[str, str] = _REMARKS["contradictions"]
REASONS: Mapping[str, str] = _REMARKS["reasons"]


Open = Callable[[Library, str, str, Case], Setting]


@dataclass(frozen=True)
class Judged:
    """A claim with its verdict and the findings behind it, under the best-fitting reading and the listing's defaults.

    ``shared``: how many other claims of the paper's rest on some of the same trained models.
    """

    claim: Claim
    verdict: str
    findings: tuple[Finding, ...] = ()
    listing: str = ""
    listing_findings: tuple[Finding, ...] = ()
    shared: int = 0

    @property
    def likely_reason(self) -> str:
        """Why the records may differ from the paper's values; empty if they agree, or if we know no reason."""
        if self.verdict not in (PARTLY, CONTRADICTED):
            return ""
        if self.claim.name in REASONS:
            return REASONS[self.claim.name]
        tested = [f for f in self.findings if f.verdict not in (NOT_TESTABLE, NOT_RUN)]
        if all(f.agrees for f in tested):
            rest = "" if len(tested) == len(self.findings) else "; the other parts could not be tested"
            return (
                f"The means agree with the claim; the seeds are too few to tell an effect of this size from none{rest}."
            )
        return ""

    @property
    def models(self) -> frozenset[str]:
        """The trained models that the verdict rests on."""
        return frozenset().union(*(f.models for f in self.findings))

    @property
    def families(self) -> tuple[str, ...]:
        """Which models these are."""
        return tuple(dict.fromkeys(f.family for f in self.findings if f.family))


def fitted(library: Library, study: str, variant: str, case: Case) -> Setting:
    """A setting under the reading that fits its table best, with the price of having chosen it."""
    s = Setting(library, study, variant, best_reading(library, study, variant))
    return replace(s, tries=tries(s, case.rows(s)))


def as_listed(library: Library, study: str, variant: str, _: Case) -> Setting:
    """A setting under the defaults of the paper's listing."""
    s = Setting(library, study, variant)
    return replace(s, reading=listing_for(s))


def under(reading: Reading) -> Open:
    """How to open a setting under one of its readings, at the price of having had the choice."""

    def opened(library: Library, study: str, variant: str, case: Case) -> Setting:
        return replace(fitted(library, study, variant, case), reading=reading)

    return opened


def elsewhere(case: Case, library: Library, finding: Finding) -> tuple[tuple[str, str], ...]:
    """(reading, verdict) of the readings that the records do not tell from the closest and that say something else."""
    if len(case.settings) != 1:
        return ()
    study, variant = case.settings[0]
    others = [d.reading for d in distances(library, study, variant) if not (d.used or d.told_apart)]
    found = [(str(r), find(case, library, under(r)).verdict) for r in others]
    return tuple((name, verdict) for name, verdict in found if verdict not in (finding.verdict, NOT_RUN))


def find(case: Case, library: Library, open_setting: Open) -> Finding:
    """The finding of one case."""
    settings = [open_setting(library, study, variant, case) for study, variant in case.settings]
    finding = RULES[case.rule](*settings, **case.options)
    if not settings:
        return finding
    return replace(
        finding,
        models=frozenset().union(*(s.used for s in settings)),
        family="; ".join(dict.fromkeys(s.family() for s in settings)),
        reading="; ".join(dict.fromkeys(str(s.reading) for s in settings)),
        caveats=tuple(dict.fromkeys(c for s in settings for c in s.caveats())),
    )


def judge(claim: Claim, library: Library) -> Judged:
    """A claim's verdicts."""
    findings = tuple(find(case, library, fitted) for case in claim.cases)
    findings = tuple(
        replace(f, elsewhere=elsewhere(case, library, f)) for f, case in zip(findings, claim.cases, strict=True)
    )
    listed = findings if claim.ours or claim.source else tuple(find(case, library, as_listed) for case in claim.cases)
    return Judged(
        claim, together([f.verdict for f in findings]), findings, together([f.verdict for f in listed]), listed
    )


def judge_all(library: Library, claims: tuple[Claim, ...] = CLAIMS) -> tuple[Judged, ...]:
    """The whole ledger, in its order, each claim with the number of others that share its models."""
    judged = [judge(claim, library) for claim in claims]
    return tuple(
        replace(j, shared=sum(bool(j.models & k.models) for k in judged if k is not j and not k.claim.ours))
        for j in judged
    )
