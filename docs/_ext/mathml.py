"""Formulas as MathML, written into the page by docutils: no script, no network, no LaTeX, and they follow the text's colour."""

from docutils.nodes import Element, SkipNode
from docutils.utils.math.latex2mathml import tex2mathml


def _inline(self: object, node: Element) -> None:
    self.body.append(tex2mathml(node.astext()))
    raise SkipNode


def _block(self: object, node: Element) -> None:
    self.body.append(f'<div class="math">{tex2mathml(node.astext(), as_block=True)}</div>')
    raise SkipNode


def setup(app: object) -> dict[str, bool]:
    """Called by Sphinx; ``html_math_renderer = "mathml"`` chooses it."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
