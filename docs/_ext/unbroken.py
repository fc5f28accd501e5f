"""Numbers of a table stay on one line: ``16.35 ± 0.71``, ``32² → 128²``, ``1.2e-02``."""

import re

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

_SPACE = re.compile(r"(?<=[\d²³%]) (?=[±→/] ?[\d−+])|(?<=[\d²³%] [±→/]) (?=[\d−+])|(?<=\d) (?=%)")
_EXPONENT = re.compile(r"(?<=\de-)(?=\d)")


def unbroken(text: str) -> str:
    r"""Spaces inside numbers that belong together as no-break spaces, a word joiner behind the minus of an exponent.

    >>> unbroken("a 16.35 ± 0.71 or 32² → 128²").replace("\N{NO-BREAK SPACE}", "~")
    'a 16.35~±~0.71 or 32²~→~128²'
    >>> unbroken("1.2e-02") == "1.2e-\N{WORD JOINER}02"
    True
    """
    return _EXPONENT.sub("\N{WORD JOINER}", _SPACE.sub("\N{NO-BREAK SPACE}", text))


class Unbroken(SphinxPostTransform):
    """Every text in a cell of a table, except code."""

    default_priority = 900
    formats = ("html",)

    def run(self, **options: object) -> None:
        """Called by Sphinx."""
        for cell in self.document.findall(nodes.entry):
            for text in list(cell.findall(nodes.Text)):
                if not isinstance(text.parent, nodes.literal):
                    text.parent.replace(text, nodes.Text(unbroken(text.astext())))


def setup(app: object) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_post_transform(Unbroken)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
