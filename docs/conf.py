"""The pages as a site: ``make docs``."""

import logging
import os
import re
import sys
from importlib.metadata import version as _version
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "2")
logging.getLogger("skfem").setLevel(logging.WARNING)  # Sphinx would print its steps
sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "quadnorm"
copyright = "the quadnorm developers"
version = release = _version("quadnorm")

extensions = [
    "generated",  # docs/_ext: pages made of the command line, the configuration, the problems and the studies
    "site_links",
    "mathml",
    "unbroken",
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
smartquotes = False  # it makes a dash of the two hyphens of an option, and quotation marks of f'(x)
html_theme = "furo"
html_title = "quadnorm"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
exclude_patterns = ["_build", "_ext", "generated/**/*.ipynb"]

myst_enable_extensions = ["colon_fence", "dollarmath", "deflist"]
myst_heading_anchors = 3
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True

autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "show-inheritance": False}
autodoc_class_signature = "mixed"
napoleon_google_docstring = True
default_role = "code"

sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_",
    "within_subsection_order": "gallery_order.Order",
    "copyfile_regex": r".*\.rst",
    "download_all_examples": False,
    "show_signature": False,
    "show_memory": False,
    "min_reported_time": 1,
    "image_scrapers": ("matplotlib",),
    "image_srcset": ["2x"],
    "remove_config_comments": True,
    "write_computation_times": False,
    "plot_gallery": os.environ.get("QUADNORM_GALLERY", "1") == "1",  # 0: pages without running the scripts
}


def _literal(app, what, name, obj, options, lines):
    """In a docstring |x| is a volume and (B, *spatial) a shape; to Sphinx they are markup."""
    prose = re.compile(r"``.*?``|(\||(?<!\\)\*(?=[a-z]+[,)\]]))")  # quoted text stays as it is
    lines[:] = [line if ">>>" in line else prose.sub(lambda m: "\\" * bool(m[1]) + m[0], line) for line in lines]


def setup(app):
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", _literal)
