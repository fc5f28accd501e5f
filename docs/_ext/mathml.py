"""Formulas as MathML, written into the page by docutils: no script, no network, no LaTeX."""

import re

from docutils.nodes import Element, SkipNode
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

log = logging.getLogger(__name__)
_SIZE = re.compile(r"\\(?:[bB]igg?|textstyle)(?![a-zA-Z])")  # MathML knows by itself how large things are


def render(tex: str, block: bool = False) -> str:
    """The formula as a <math> element."""
    return str(tex2mathml(_SIZE.sub("", tex), as_block=block))


def _visit(self: object, node: Element, block: bool) -> None:
    try:
        shown = render(node.astext(), block)
    except MathError as error:
        log.warning("cannot render the formula %r: %s", node.astext(), error, location=node, type="math")
        shown = self.attval(node.astext())
    self.body.append(f'<div class="math">{shown}</div>' if block else shown)
    raise SkipNode


def setup(app: object) -> dict[str, bool]:
    """Called by Sphinx; ``html_math_renderer = "mathml"`` chooses it."""
    inline, block = (lambda self, node, b=b: _visit(self, node, b) for b in (False, True))
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
