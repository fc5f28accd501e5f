"""A page for each problem: its card, its parameters, and a picture of samples."""

import inspect
import re
from dataclasses import fields
from pathlib import Path

from markup import code, escape, table

UNPICTURED = {
    "files": "Your files: `quadnorm data show FILE -o picture.png` draws them.",
    "darcy-official": "The released files are not part of this repository; with them, `quadnorm data show "
    "darcy-official` draws samples.",
    "darcy-pdebench": "PDEBench's file is not part of this repository; with it, `quadnorm data show darcy-pdebench` "
    "draws samples.",
    "darcy-neuralop": "`quadnorm data fetch darcy-neuralop` gets the files; then `quadnorm data show darcy-neuralop` "
    "draws samples.",
}
SIZE = 65


def problem_pages(folder: Path) -> dict[str, str]:
    """Pages by file name; pictures are written into ``folder`` where they are missing."""
    from quadnorm.problems import problem_names

    names = problem_names()
    pages = {f"{name}.md": problem_page(name, folder) for name in names}
    listed = "\n".join(names)
    pages["index.md"] = (
        "# Problems\n\nEvery problem yields the same continuous instances on every grid: "
        "`problem(name).sample(range(20), resolution=33)`. `quadnorm data list` prints the list, `quadnorm data info "
        "NAME` a card, `quadnorm data show NAME -o picture.png` draws samples.\n\n"
        + table(("problem", "maps", "nodes"), [_line(name) for name in names])
        + f"\n```{{toctree}}\n:hidden:\n\n{listed}\n```\n"
    )
    return pages


def _class(name: str) -> type:
    from quadnorm.problems import problem_class

    return problem_class(name)


def _line(name: str) -> tuple[str, str, str]:
    kind = _class(name)
    maps = "your files" if name == "files" else f"{', '.join(kind.inputs)} → {', '.join(kind.outputs)}"
    return (
        f"[{name}]({name}.md)",
        escape(maps),
        escape(", ".join(kind.placements) if name != "files" else "as they are"),
    )


def problem_page(name: str, folder: Path) -> str:
    """Title, equation, picture, the rest of the card, parameters."""
    kind = _class(name)
    equation, _, details = card(inspect.cleandoc(kind.__doc__ or "")).partition("\n\n")
    parts = [f"# {name}", equation]
    if name in UNPICTURED:
        parts.append(UNPICTURED[name])
    else:
        picture = folder / f"{name}.png"
        if not picture.exists():
            _draw(name, picture)
        parts.append(f"```{{image}} {picture.name}\n:alt: two samples of {name}\n```")
        parts.append(f"Drawn by `quadnorm data show {name} -n 2 -r {SIZE} -o {name}.png`.")
    parts.append(details)
    rows = [(code(f.name), _default(f)) for f in fields(kind) if f.init]
    parts += [
        "## Parameters",
        f'Given as `problem("{name}", name=value)` or `problem.params.name=value`.',
        table(("parameter", "default"), rows),
    ]
    return "\n\n".join(parts) + "\n"


def _default(field: object) -> str:
    return code(repr(field.default)) if "MISSING" not in repr(field.default) else "required"


def _draw(name: str, picture: Path) -> None:
    from quadnorm.problems import problem
    from quadnorm.problems.draw import draw

    draw(problem(name), picture, 2, SIZE)


def card(text: str) -> str:
    r"""A card's docstring as Markdown: each ``Word: …`` that starts a line becomes a paragraph with a bold head.

    >>> card("u = 1.\n\nLaw: a\n  line.\nCost: none.")
    'u = 1.\n\n**Law.** a line.\n\n**Cost.** none.'
    """
    paragraphs: list[list[str]] = [[]]
    for line in text.splitlines():
        if not line.strip():
            paragraphs.append([])
        elif re.match(r"[A-Z][\w ,→-]{2,40}: ", line):
            paragraphs.append([line.strip()])
        else:
            paragraphs[-1].append(line.strip())
    shown = []
    for lines in filter(None, paragraphs):
        head, colon, rest = " ".join(lines).partition(": ")
        named = colon and re.fullmatch(r"[A-Z][\w ,→-]{2,40}", head)
        shown.append(f"**{escape(head)}.** {escape(rest)}" if named else escape(" ".join(lines)))
    return "\n\n".join(shown)
