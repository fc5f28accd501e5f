"""The folder of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from quadnorm.training.files.folder import claimed


def test_a_folder_has_one_trainer_at_a_time(tmp_path: Path) -> None:
    (tmp_path / ".quadnorm-0123456789abcdef.part").write_bytes(b"left behind by a kill")
    (tmp_path / ".mine.part").write_bytes(b"somebody else's")
    with claimed(tmp_path):
        assert sorted(p.name for p in tmp_path.iterdir()) == [".lock", ".mine.part"]
        with pytest.raises(OSError, match="another process is training in"), claimed(tmp_path, patience=0):
            pass
    with claimed(tmp_path, patience=0):
        pass
