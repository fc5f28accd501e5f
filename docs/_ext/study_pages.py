"""A page for each study: what is trained and measured, what the paper prints, and the commands."""

import re
from pathlib import Path

from markup import code, escape, table


def study_pages(results: Path) -> dict[str, str]:
    """Pages by file name; ``results`` is the page of measured results, linked where it has the study."""
    from quadnorm.lab.studies import estimate, study, study_names
    from quadnorm.lab.studies.catalog import derived, derived_names

    measured = results.read_text(encoding="utf-8") if results.exists() else ""
    names = study_names()
    pages = {
        f"{name}.md": study_page(name, section(measured, name), section(measured, f"{name}, paper preset"))
        for name in names
    }
    rows = []
    for name in names:
        desk, paper = (estimate(study(name).at(preset)) for preset in ("desk", "paper"))
        hours = paper.minutes() / 60
        rows.append(
            (
                f"[{name}]({name}.md)",
                escape(study(name).title),
                str(desk.runs),
                f"{desk.minutes():.0f}",
                str(paper.runs),
                f"{hours:.0f}",
            )
        )
    computed = [
        (code(n), escape(derived(n).title), ", ".join(f"[{s}]({s}.md)" for s in derived(n).draws_on))
        for n in derived_names()
    ]
    parts = [
        "# Studies",
        "Every experiment of the paper and ours, as data. `quadnorm study run NAME --preset desk` trains and evaluates "
        "what is missing; stop and resume at will. Times are estimates for two cores.",
        table(("study", "what it compares", "desk: runs", "minutes", "paper: runs", "hours"), rows),
        "## Tables computed from studies",
        table(("table", "what it shows", "from"), computed),
        "```{toctree}\n:hidden:\n\n" + "\n".join(names) + "\n```",
    ]
    pages["index.md"] = "\n\n".join(parts) + "\n"
    return pages


def section(page: str, name: str) -> str:
    r"""What a page says below ``### name``, up to the next heading; empty if it has no such heading.

    >>> section("# Results\n\n### demo\n\nA table.\n\n### depth\n", "demo")
    'A table.'
    """
    found = re.search(rf"^### {re.escape(name)}$(.*?)(?=^##|\Z)", page, flags=re.DOTALL | re.MULTILINE)
    return found[1].strip() if found else ""


def study_page(name: str, measured: str, full_size: str = "") -> str:
    """One study; ``measured`` and ``full_size`` are its parts of the page of results, at the two presets."""
    from quadnorm.lab.studies import estimate, study
    from quadnorm.lab.studies.paper import paper_table

    s = study(name)
    parts = [f"# {name}", escape(s.title) + "."]
    if not measured and not full_size:
        parts.append("Not measured yet: the records that come with the repository hold no run of it.")
    parts += [
        "## What is run",
        table(
            ("setting", "problem", "operator", "trained at", "tested at", "samples", "epochs"),
            map(_setting, s.variants),
        ),
    ]
    methods = {m.label: m for v in s.variants for m in v.methods}
    parts.append(
        table(
            ("row", "norm", "other settings"),
            [(escape(m.label), code(m.norm), _params(m.operator)) for m in methods.values()],
        )
    )
    if len(s.evaluations) > 1:
        parts.append(
            "Each model is used at other grids in these ways: "
            + "; ".join(escape(w.label) for w in s.evaluations)
            + "."
        )
    if s.notes:
        parts.append("\n".join(f"- {escape(note)}" for note in s.notes))
    cost = {preset: estimate(s.at(preset)) for preset in ("smoke", "desk", "paper")}
    lines = [
        f"quadnorm study run {name} --preset {p:6s} # {c.runs} runs, {_time(c.minutes())}" for p, c in cost.items()
    ]
    parts.append("```sh\n" + "\n".join([*lines, f"quadnorm study show {name} --preset desk"]) + "\n```")
    if measured:
        parts += [
            "## Measured here",
            f"From the records that come with the repository; the [tables](../../results-studies.md#{name}) have it "
            "among the others.",
            measured,
        ]
    if full_size:
        parts += ["## Measured at the paper's size", full_size]
    labels = dict.fromkeys([*s.tables, *(v.label for v in s.variants if v.label)])
    for label in labels:
        parts += [f"## The paper's table `{label.removeprefix('tab:')}`", _printed(paper_table(label))]
    return "\n\n".join(parts) + "\n"


def _setting(v: object) -> tuple[str, ...]:
    grids = (", ".join(f"{n}²" for n in grid) for grid in (v.train, v.test))
    return (
        escape(v.name),
        f"[{v.problem}](../problems/{v.problem}.md)",
        code(v.operator),
        *grids,
        str(v.budget.train),
        str(v.budget.epochs),
    )


def _params(params: object) -> str:
    return ", ".join(code(f"{k}={v}") for k, v in params.items())


def _time(minutes: float) -> str:
    if minutes < 2:
        return f"about {60 * minutes:.0f} s"
    return f"about {minutes:.0f} min" if minutes < 180 else f"about {minutes / 60:.0f} h"


def _printed(t: object) -> str:
    parts = [f"{escape(t.caption)} ({escape(t.unit)}" + (f"; {t.seeds} seeds" if t.seeds else "") + ")"]
    for panel in t.panels:
        if panel.title:
            parts.append(f"*{escape(panel.title)}*")
        rows = [[f"**{escape(c.text)}**" if c.bold and c.text else escape(c.text) for c in row] for row in panel.rows]
        parts.append(table([escape(head) for head in panel.columns], rows))
    parts += [f"- {escape(note)}" for note in t.notes]
    return "\n\n".join(parts)
