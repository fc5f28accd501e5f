"""A pack: records in one file, without weights. It is enough for a report and small enough to be committed.

A pack is a tar.xz whose bytes depend on its contents only: sorted names, no times, no owners. Its last member,
``pack.json``, holds the checksums of all other members; a pack that does not agree with them is refused.
"""

from __future__ import annotations

import hashlib
import io
import json
import lzma
import re
import tarfile
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from quadnorm._files import DamagedError, explained, open_file, write_atomic
from quadnorm._foreign import parsing
from quadnorm._memory import size

MANIFEST = "pack.json"
MOST_BYTES = 2**30  # of all files of a pack; a run has about 60,000
_MOST_FILES = 200_000
_MOST_MEMORY = 2**27  # of the decompressor; ours needs 9 MB, the largest setting of xz 65
_PART = re.compile(r"(?!\.\.?$)[^/\\:\x00-\x1f\x7f]{1,200}")  # of a path: no way up, no drive, no control characters
_KEPT = ("record.json", "config.yaml", "metrics.jsonl", "evaluations/*.json", "pictures/*.npz", "pictures/audit.json")


def pack(results: Path, file: Path) -> int:
    """Write the finished runs of a results folder into one file; returns how many there are."""
    runs = sorted(p.parent for p in Path(results).glob("runs/*/record.json"))
    if not runs:
        raise ValueError(f"{results} holds no finished run; give a folder that study run has written to")
    members: dict[str, bytes] = {}
    for run in runs:
        for pattern in _KEPT:
            for path in sorted(run.glob(pattern)):
                members[f"runs/{run.name}/{path.relative_to(run).as_posix()}"] = path.read_bytes()
    total, most = sum(map(len, members.values())), MOST_BYTES - 2**25  # the rest for names and checksums
    if total > most or len(members) >= _MOST_FILES:
        raise ValueError(
            f"{results}: {len(members)} files with {size(total)} are too many for one pack, which holds "
            f"{_MOST_FILES - 1} with {size(most)}; make one of each part of the runs"
        )
    sums = {name: _checksum(data) for name, data in members.items()}
    members[MANIFEST] = (json.dumps(sums, indent=0, sort_keys=True) + "\n").encode()
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    write_atomic(Path(file), lzma.compress(plain.getvalue(), preset=6), "the pack")
    return len(runs)


def unpack(file: Path, folder: Path) -> Path:
    """Put a pack's records into ``folder`` once every checksum agrees; a DamagedError names a file that is damaged.

    Nothing of a pack is believed: it is unpacked up to a bound, and its names can lead nowhere but into ``folder``.
    """
    file = Path(file)
    try:
        with parsing(file, "not a pack of records", DamagedError):
            members = _members(file)
            if MANIFEST not in members:
                raise ValueError(f"it has no {MANIFEST}")
            sums = json.loads(members.pop(MANIFEST))
    except FileNotFoundError:
        raise FileNotFoundError(f"no pack of records {file}") from None
    if not isinstance(sums, dict) or sums != {name: _checksum(data) for name, data in members.items()}:
        raise DamagedError(file, "its contents do not agree with their checksums")
    for name in members:
        if not _is_part_of_a_run(name) or PurePosixPath(name).parent.as_posix() in members:
            raise DamagedError(file, f"{name!r} is not part of a run's record")
    if not members:
        raise DamagedError(file, "it holds no run")
    for name, data in members.items():
        target = folder / name
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        except OSError as error:
            raise explained(error, f"cannot unpack {name!r} of {file} to {folder}") from error
    return folder


def _members(file: Path) -> dict[str, bytes]:
    """The files in a pack by name."""
    members: dict[str, bytes] = {}
    with open_file(file) as packed:
        plain = _unpacked(packed)
    with tarfile.open(fileobj=io.BytesIO(plain), mode="r:") as archive:
        for member in archive:
            if not member.isfile() or member.name in members or len(members) == _MOST_FILES:
                raise ValueError(f"{member.name!r} is not a regular file, is there twice, or is one too many")
            # Not extractfile, which takes longer for these small files than all the rest.
            members[member.name] = plain[member.offset_data : member.offset_data + member.size]
    return members


def _unpacked(packed: BinaryIO) -> bytes:
    """The bytes of a compressed file, up to a bound: a few of them can stand for any number of zeros."""
    code, parts, left = lzma.LZMADecompressor(memlimit=_MOST_MEMORY), [], MOST_BYTES
    while not code.eof:
        more = packed.read(2**16) if code.needs_input else b""
        if code.needs_input and not more:
            raise EOFError("it is cut short")
        parts.append(code.decompress(more, min(2**20, left + 1)))
        left -= len(parts[-1])
        if left < 0:
            raise ValueError(f"it unpacks to more than {size(MOST_BYTES)}")
    return b"".join(parts)


def _is_part_of_a_run(name: str) -> bool:
    """Whether a name is runs/RUN/FILE or runs/RUN/FOLDER/FILE, with no way out of its folder.

    >>> [_is_part_of_a_run(n) for n in ("runs/a/record.json", "runs/a/b/c.json", "runs/a", "", ".", "runs/../a/b")]
    [True, True, False, False, False, False]
    """
    parts = name.split("/")
    return parts[0] == "runs" and len(parts) in (3, 4) and all(_PART.fullmatch(part) for part in parts[1:])


def _checksum(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=20).hexdigest()
