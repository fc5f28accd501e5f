"""Every study by name, and the tables that are derived from them: the TOML files of this folder, as frozen data.

A ``[[study]]`` has the fields of :class:`~quadnorm.lab.studies.study.Study` and those of its variants; what stands
under ``[[study.variants]]`` holds for one variant only. Beside these fields:

====================  ==================================================================================================
key                   meaning
====================  ==================================================================================================
``seeds``             how many; they are 0, 1, …, the same for every method, so that runs can be paired
``methods``           a set of rows of ``shared.toml`` by name, or a list of rows: the name of one there, or a row of
                      its own (``printed``: its name in the paper's table; ``ours = true``: the paper has no such row)
``readings, block``   false: without the other readings of the paper's rows; true: also in the other form of the block
``samples``           training, validation and test; absent: 900 (Darcy) or 1000, 100, 200
``patience``          0 never stops early
``table``             the paper's table of the printed values, without ``tab:``; of the whole study: it rebuilds it
``tables``            those that the study rebuilds, if they are others
``loss``              of training; absent: the relative L² error
``variant``           the name of the only variant
``desk``              changes of the operator's desk budget; ``like``: of which other one (:func:`.parts.desk_budget`)
``evaluations``       ways of ``shared.toml`` or ``study.py`` by name, or written out; ``transfer``: the four usual
                      ones, which every study with other grids has if it lists none; ``{ways, steps}``: ways rolled out
``notes``             sentences; ``@NAME`` stands for the note of that name in ``shared.toml``
====================  ==================================================================================================
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

from quadnorm._suggest import unknown
from quadnorm.lab import read_table
from quadnorm.lab.studies.catalog import field
from quadnorm.lab.studies.catalog.parts import SHARED, seeds, shared_way, variant, way_of
from quadnorm.lab.studies.study import AS_TRAINED, TRANSFER, Derived, Method, Study, Variant, Way

# The files in the order in which the studies are listed, the paper's first; then the studies that are made in Python,
# because their variants are every combination of something.
FILES = ("fno", "benchmark", "breadth", "ours")
COMBINED = field.STUDIES
_OF_STUDY = ("name", "title", "theme", "desk_seeds", "statistic", "metric")


def _ways(row: str | Mapping[str, Any]) -> tuple[Way, ...]:
    if row == "transfer":
        return TRANSFER
    if isinstance(row, str):
        return (shared_way(row),)
    if "ways" in row:
        return tuple(way.rolled(row["steps"]) for name in row["ways"] for way in _ways(name))
    return (way_of(row),)


def _method(row: str | Mapping[str, Any]) -> Method:
    if isinstance(row, str):
        return Method(row, SHARED["methods"][row])
    fields = {key: value for key, value in row.items() if key != "ours"}
    return Method(**fields, printed=None) if row.get("ours") else Method(**fields)


def _note(text: str) -> str:
    return str(SHARED["notes"][text[1:]]) if text.startswith("@") else text


def _variant(row: dict[str, Any]) -> Variant:
    """The variant of a row; what the row leaves out has the paper's usual value."""
    rows, train = row.pop("methods"), row.pop("train")
    train = (train,) if isinstance(train, int) else tuple(train)
    return variant(
        row.pop("problem"),
        row.pop("operator"),
        tuple(map(_method, SHARED["rows"][rows] if isinstance(rows, str) else rows)),
        train,
        tuple(row.pop("test")),
        **row,
    )


def _study(row: dict[str, Any]) -> Study:
    """A study from its row of a file."""
    alone, of_variants = row.pop("variant", "main"), row.pop("variants", None)
    fields: dict[str, Any] = {key: row.pop(key) for key in _OF_STUDY if key in row}
    count, tables = row.pop("seeds"), row.pop("tables", [row["table"]] if "table" in row else [])
    ways = [way for item in row.pop("evaluations", ()) for way in _ways(item)]
    pictured, notes = row.pop("pictured", ()), map(_note, row.pop("notes", ()))
    variants = tuple(_variant({**row, **own}) for own in of_variants or [{"name": alone}])
    other_grids = any(set(v.test) - set(v.train) for v in variants)
    return Study(
        **fields,
        variants=variants,
        seeds=seeds(count),
        tables=tuple(f"tab:{table}" for table in tables),
        evaluations=tuple(ways) or (TRANSFER if other_grids else (AS_TRAINED,)),
        pictured=tuple(pictured),
        notes=tuple(notes),
    )


@cache
def _studies() -> dict[str, Study]:
    listed = (s for file in FILES for s in map(_study, read_table(f"studies/catalog/{file}.toml")["study"]))
    return {s.name: s for s in (*listed, *COMBINED)}


@cache
def _derived() -> dict[str, Derived]:
    return {
        name: Derived(name, f"tab:{name}", row["title"], tuple(row["draws_on"]), tuple(row.get("notes", ())))
        for name, row in read_table("studies/catalog/derived.toml").items()
    }


def study_names() -> tuple[str, ...]:
    """The names that :func:`study` knows, the paper's studies first."""
    return tuple(_studies())


def study(name: str) -> Study:
    """A study by name, at the paper's budget; the name may begin with ``tab:``.

    >>> s = study("deep-crossres")
    >>> s.variants[0].operator_params
    {'width': 48, 'modes': 12, 'layers': 8, 'last_activation': True}
    >>> s.variants[0].printed()["QuadNorm", 256].value
    4.17
    """
    key = name.removeprefix("tab:")
    if key in _studies():
        return _studies()[key]
    if key in _derived():
        raise ValueError(
            f"{key!r} is not a study but a table computed from studies: run {', '.join(_derived()[key].draws_on)}"
        )
    raise ValueError(unknown("study", name, _studies()))


def derived_names() -> tuple[str, ...]:
    """The names that :func:`derived` knows."""
    return tuple(_derived())


def derived(name: str) -> Derived:
    """A derived table by name.

    >>> derived("effect-sizes").draws_on[0]
    'extreme-crossres'
    """
    key = name.removeprefix("tab:")
    if key not in _derived():
        raise ValueError(unknown("derived table", name, _derived()))
    return _derived()[key]
