"""The suite mirrors the tree of the package; helpers are imported by their full name, ``tests.room.helper``."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
HANGS = 1800  # seconds after which a test says that something hangs; nothing else depends on how busy the machine is
