"""Which tile a tensor is cut into, and how many threads work on one: arithmetic on shapes, without Triton."""

from __future__ import annotations

from typing import NamedTuple

ROW = 2**13  # numbers of a row that stay on chip: 8 per thread of the largest block; 16 would spill
TILE = 2**12  # numbers of a tile where rows are longer
SHORTEST = 64  # samples of a tile, at least: a cache line of 128 bytes serves 32 or 64 of them


class Tile(NamedTuple):
    """BD channels of BN samples, worked on by so many threads."""

    channels: int
    samples: int

    @property
    def threads(self) -> int:
        """One thread for 8 numbers, for 4 of a small tile; at most 1024, and full warps of every vendor."""
        numbers = self.channels * self.samples
        return min(1024, max(64, numbers // 8 if numbers > 2048 else numbers // 4))


def power_of_two(n: int) -> int:
    """The next power of two.

    >>> power_of_two(33), power_of_two(64), power_of_two(1)
    (64, 64, 1)
    """
    return 1 << max(0, n - 1).bit_length()


def whole_row(D: int, N: int) -> Tile | None:
    """The tile that holds D channels of N samples, if it is not larger than the chip's share.

    >>> whole_row(1, 4096)
    Tile(channels=1, samples=4096)
    >>> whole_row(64, 4096) is None
    True
    """
    tile = Tile(power_of_two(D), power_of_two(N))
    return tile if tile.channels * tile.samples <= ROW else None


def part_of_row(D: int, N: int, size: int = TILE) -> Tile:
    """A tile of the given size whose padding is small: a short row is cut, a shorter one is stacked by channels.

    >>> part_of_row(64, 256 * 256)
    Tile(channels=1, samples=4096)
    >>> part_of_row(32, 33 * 33)
    Tile(channels=16, samples=256)
    """
    if 8 * size <= N:  # the padding is small already, and offsets inside a tile stay far below 2³¹
        return Tile(1, size)
    samples = min(size, power_of_two(max(N, SHORTEST)))
    while samples > 4 * SHORTEST and 8 * (-N % samples) > N:
        samples //= 2
    return Tile(min(power_of_two(D), size // samples), samples)


def cuts(n: int, size: int) -> int:
    """How many pieces of that size n has, the last one shorter."""
    return -(-n // size)
