"""The description that a package index shows: README.md for readers who have no repository beside it."""

import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

PICTURE = re.compile(r"<picture>.*?</picture>", re.DOTALL)
RELATIVE = re.compile(r"\[([^\]]+)\]\((?![a-z]+:|#)([^)\s]+)\)")
WHERE = "(Files and pages named here are in the repository and the source distribution; `make docs` builds the site.)"


def long_description(readme: str) -> str:
    """README.md with relative links as names of files, and with a sentence that says where these are for the picture.

    >>> long_description("See [how](docs/a.md), [a.md](a.md), [b](https://b.org).")
    'See how (`docs/a.md`), `a.md`, [b](https://b.org).'
    """
    named = RELATIVE.sub(lambda m: f"`{m[2]}`" if m[1] == m[2] else f"{m[1]} (`{m[2]}`)", readme)
    return PICTURE.sub(WHERE, named)


class LongDescription(MetadataHookInterface):
    """Called by hatchling for every build."""

    def update(self, metadata):
        """Set the field ``readme``."""
        readme = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": long_description(readme)}
