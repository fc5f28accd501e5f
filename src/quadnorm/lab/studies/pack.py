"""A pack: records in one file, without weights. It is enough for a report and small enough to be committed.

A pack is a tar.xz whose bytes depend on its contents only: sorted names, no times, no owners. Its last member,
``pack.json``, holds the checksums of all other members; a pack that does not agree with them is refused.
"""

from __future__ import annotations

import hashlib
import io
import json
import lzma
import tarfile
from pathlib import Path, PurePosixPath

from quadnorm._files import DamagedError, write_atomic

MANIFEST = "pack.json"
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
    """Put a pack's records into ``folder`` once every checksum agrees; a DamagedError names a file that is damaged."""
    try:
        plain = lzma.decompress(Path(file).read_bytes())
        with tarfile.open(fileobj=io.BytesIO(plain)) as archive:
            members = {m.name: _content(archive, m) for m in archive.getmembers()}
        sums = json.loads(members.pop(MANIFEST))
    except FileNotFoundError:
        raise FileNotFoundError(f"no pack of records {file}") from None
    except (lzma.LZMAError, tarfile.TarError, KeyError, ValueError, EOFError) as error:
        raise DamagedError(Path(file), f"not a pack of records ({error})") from None
    if not isinstance(sums, dict) or sums != {name: _checksum(data) for name, data in members.items()}:
        raise DamagedError(Path(file), "its contents do not agree with their checksums")
    for name, data in members.items():
        parts = PurePosixPath(name).parts
        if parts[0] != "runs" or ".." in parts:
            raise DamagedError(Path(file), f"{name!r} is not part of a run's record")
        target = folder.joinpath(*parts)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    return folder


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    content = archive.extractfile(member) if member.isfile() else None
    if content is None:
        raise ValueError(f"{member.name!r} is not a regular file")
    return content.read()


def _checksum(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=20).hexdigest()
