"""Parsers on files that somebody else may have written: whatever the bytes do to them becomes one line.

One place decides what a damaged or hostile file can raise, because nobody can list it: zipfile, zlib, lzma, tarfile,
pickle, NumPy's headers, h5py and scipy raise ``zlib.error``, ``SyntaxError``, ``NotImplementedError``,
``OverflowError``, ``struct.error`` and many more, and each version others.
"""

from __future__ import annotations

import errno
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quadnorm._files import open_file
from quadnorm._memory import no_memory, out_of_memory, require, size
from quadnorm._text import one_line

if TYPE_CHECKING:
    import numpy as np

# What the system says of a file that it cannot give us, whatever its bytes are.
_SYSTEM = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError, InterruptedError)
_SYSTEM_NUMBERS = {
    errno.EIO,
    errno.EMFILE,
    errno.ENFILE,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.ESTALE,
    errno.ETIMEDOUT,
}


def unreadable(path: Path, reason: str) -> ValueError:
    """The error for a file of a user that cannot be read."""
    return ValueError(f"{path}: {reason}")


@contextmanager
def parsing(path: Path, kind: str, error: Callable[[Path, str], Exception] = unreadable) -> Iterator[None]:
    """Around the calls that parse a file: any exception of theirs becomes ``error(path, …)``, which names the file.

    ``kind`` says what the file is not, such as "not a readable MATLAB file"; ``error`` may be :class:`DamagedError`.
    Errors of the system (no such file, not permitted), a package that is missing, and errors that begin with the path
    pass unchanged.

    >>> import zlib
    >>> with parsing(Path("x.z"), "not compressed by zlib"):
    ...     zlib.decompress(b"?")
    Traceback (most recent call last):
    ValueError: x.z: not compressed by zlib (Error -5 while decompressing data: incomplete or truncated stream)
    """
    try:
        yield
    except (ImportError, Warning, *_SYSTEM):
        raise
    except Exception as wrong:
        if str(wrong).startswith(str(path)) or (isinstance(wrong, OSError) and wrong.errno in _SYSTEM_NUMBERS):
            raise
        if out_of_memory(wrong):
            raise error(path, f"reading it takes more memory than there is ({no_memory(wrong)})") from wrong
        if isinstance(wrong, RecursionError):
            raise error(path, f"{kind} (it is nested too deeply)") from wrong
        raise error(path, f"{kind} ({one_line(wrong)})") from wrong


def require_unpacked(path: Path) -> None:
    """Raise a ValueError if a zip archive unpacks to more than fits into memory; other files pass."""
    from zipfile import ZipFile, is_zipfile

    with open_file(path) as raw:
        if is_zipfile(raw):
            with ZipFile(raw) as archive:
                require(sum(member.file_size for member in archive.infolist()), f"{path}: unpacking it")


def read_arrays(
    path: Path, kind: str, error: Callable[[Path, str], Exception] = unreadable, most: int | None = None
) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of an ``.npz``, of at most ``most`` bytes in all (by default what fits into memory).

    Sizes are compared before anything is unpacked: a small archive can stand for any number of zeros. Nothing is
    unpickled.
    """
    from zipfile import ZipFile, is_zipfile

    from numpy.lib import format as npy

    with open_file(path) as raw, parsing(path, kind, error):
        if not is_zipfile(raw):
            raise ValueError("it is no zip archive")
        with ZipFile(raw) as archive:
            members = archive.infolist()
            total = sum(member.file_size for member in members)
            if most is not None and total > most:
                raise ValueError(f"its arrays have {size(total)}; at most {size(most)} are read")
            require(total, f"{path}: reading its arrays")
            for member in members:
                with archive.open(member) as stream:
                    _check_header(member.filename, member.file_size, stream)
            arrays = {}
            for member in members:
                with archive.open(member) as stream:
                    arrays[member.filename.removesuffix(".npy")] = npy.read_array(stream, allow_pickle=False)
                    if stream.read(1):
                        raise ValueError(f"{member.filename} goes on after its array")
            return arrays


def _check_header(name: str, length: int, stream: Any) -> None:
    """Compare the shape in an array's header with the bytes that there are, before memory is taken for it."""
    from numpy.lib import format as npy

    if not name.endswith(".npy"):
        raise ValueError(f"the member {name!r} is not a .npy array; take it out of the archive")
    version = npy.read_magic(stream)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, _, dtype = read(stream)
    if min(shape, default=0) < 0:
        raise ValueError(f"{name} announces an array of shape {shape}")
    if (announced := math.prod(shape) * dtype.itemsize) > length:
        raise ValueError(f"{name} announces {announced} bytes, the archive has {length} of it")
