"""Random streams, each identified by problem, seed and sample index.

A sample's numbers depend neither on the resolution, nor on the other samples of a batch, nor on the number of workers:
every sample has its own counter-based generator (Philox), whose key is a hash of these three.
"""

import hashlib

import numpy as np


def stream(problem: str, seed: int, index: int, purpose: str = "") -> np.random.Generator:
    """The generator of one sample of one problem.

    ``purpose`` separates quantities of one sample, so that drawing more of one never shifts another.

    >>> first = stream("darcy", seed=0, index=3).standard_normal(2)
    >>> again = stream("darcy", seed=0, index=3).standard_normal(2)
    >>> bool((first == again).all())
    True
    """
    # JSON-like text, not Python's hash(): that one differs from process to process.
    name = f"quadnorm stream 1\0{problem}\0{seed}\0{index}\0{purpose}"
    key = hashlib.blake2b(name.encode(), digest_size=16).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(key, "little")))
