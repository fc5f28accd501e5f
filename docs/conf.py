"""The pages as a site: ``make docs``."""

import re
from importlib.metadata import version as _version

project = "quadnorm"
copyright = "the quadnorm developers"
version = release = _version("quadnorm")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax", "sphinx.ext.viewcode"]
html_theme = "furo"
html_title = "quadnorm"
myst_heading_anchors = 3
exclude_patterns = ["_build"]

autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "show-inheritance": False}
autodoc_class_signature = "mixed"
napoleon_google_docstring = True
default_role = "code"


def _literal(app, what, name, obj, options, lines):
    """In a docstring |x| is a volume and (B, *spatial) a shape; to Sphinx they are markup."""
    prose = re.compile(r"``.*?``|(\||(?<!\\)\*(?=[a-z]+[,)\]]))")  # quoted text stays as it is
    lines[:] = [line if ">>>" in line else prose.sub(lambda m: "\\" * bool(m[1]) + m[0], line) for line in lines]


def setup(app):
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", _literal)
