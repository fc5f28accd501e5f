"""The pages as a site: ``make docs``."""

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
