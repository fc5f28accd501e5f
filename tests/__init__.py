"""The suite mirrors the tree of the package; helpers are imported by their full name, ``tests.room.helper``."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
