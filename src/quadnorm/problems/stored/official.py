"""Published files that cannot be generated: their names, where to get them, and where this package looks for them."""

import os
from dataclasses import dataclass
from pathlib import Path


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
