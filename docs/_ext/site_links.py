"""Links that work in the repository and on the site: the site has pages made of what these folders hold."""

import posixpath
import re

PAGES = {  # folder or file of the repository: page of the site
    "examples/gallery": "/gallery/index",
    "src/quadnorm/cli/commands": "/generated/commands",
    "src/quadnorm/training/config": "/generated/configuration",
    "src/quadnorm/problems/pdes": "/generated/problems/index",
    "src/quadnorm/lab/studies/catalog": "/generated/studies/index",
    "src/quadnorm/lab/analysis/figures": "/generated/figures",
    "src/quadnorm/lab/report/glossary.py": "/generated/glossary",
}
_LINK = re.compile(r"\[([^\]]+)\]\((\.\./[^)#\s]+)\)")


def to_pages(text: str, docname: str) -> str:
    """A page's source whose links to these folders lead to the pages made of them.

    >>> to_pages("See [the gallery](../../examples/gallery).", "start/five-minutes")
    'See {doc}`the gallery </gallery/index>`.'
    >>> to_pages("[measures](../understand/measures.md)", "start/five-minutes")
    '[measures](../understand/measures.md)'
    """
    here = posixpath.join("docs", posixpath.dirname(docname))

    def page(link: re.Match[str]) -> str:
        name = PAGES.get(posixpath.normpath(posixpath.join(here, link[2])))
        return f"{{doc}}`{link[1]} <{name}>`" if name else link[0]

    return _LINK.sub(page, text)


def _read(app: object, docname: str, source: list[str]) -> None:
    source[0] = to_pages(source[0], docname)


def setup(app: object) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("source-read", _read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
