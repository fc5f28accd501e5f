"""Numbers of a table stay on one line: ``16.35 ± 0.71``, ``32² → 128²``, ``1.2e-02``."""

from docutils import nodes
from markup import unbroken
from sphinx.transforms.post_transforms import SphinxPostTransform


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
