"""Why records of the small presets contradict a claim of the paper, or reach only a part of it, as far as we can tell.

By the name of the claim. A reason that was tested says by what; the others are guesses, and say so.
"""

REASONS: dict[str, str] = {}
