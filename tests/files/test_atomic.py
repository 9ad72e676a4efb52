from __future__ import annotations

import pytest

from planbench.files.atomic import replacing


def test_a_file_is_replaced_when_all_of_it_is_written(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o640)
    with replacing(path) as file:
        file.write(b"ne")
        assert path.read_bytes() == b"old"
        file.seek(0)
        file.write(b"new")
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_meanwhile_leaves_the_old_file_and_nothing_beside_it(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(TypeError), replacing(path) as file:
        file.write("new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_new_file_has_the_rights_that_others_here_have(tmp_path):
    (tmp_path / "plain").write_bytes(b"")
    with replacing(tmp_path / "file") as file:
        file.write(b"x")
    assert (tmp_path / "file").stat().st_mode == (tmp_path / "plain").stat().st_mode
