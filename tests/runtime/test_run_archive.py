"""Zips that are no run files: each is refused with one error, in little time and memory."""

from __future__ import annotations

import os
import struct
import time
import tracemalloc
import warnings
import zipfile

import pytest

from planbench import open_run
from planbench.errors import ArtifactDamaged, RecordDamaged, StoreError

MOST_SECONDS = 10
MOST_BYTES = 60_000_000


@pytest.fixture
def path(lab, tmp_path):
    """A sound run file with two results."""
    run = lab.run(lab.node("a", "give", {"value": ["x" * 500]}), lab.node("b", "boom"))
    return run.save(tmp_path / "run.planrun")


def members(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def written(path, files, kind=zipfile.ZIP_DEFLATED):
    """Write names and bytes, also the same name twice."""
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w", kind) as archive:
        warnings.simplefilter("ignore")  # of zipfile, about names that are there twice
        for name, data in files:
            archive.writestr(name, data)
    return path


def refused(path, said):
    """The file is refused: one line that names it and says why, nothing heavy done."""
    tracemalloc.start()
    began = time.monotonic()
    try:
        with pytest.raises(RecordDamaged) as caught:
            open_run(path)
        assert time.monotonic() - began < MOST_SECONDS
        assert tracemalloc.get_traced_memory()[1] < MOST_BYTES
    finally:
        tracemalloc.stop()
    message = caught.value.message
    assert said in message, message
    assert path.name in message
    assert "\n" not in message
    assert len(message) < 500
    assert caught.value.code == "checkpoint_invalid"


def test_what_is_no_zip_is_refused(tmp_path):
    for data in (b"", b"PK", b"x" * 100, b"PK\5\6" + bytes(17), os.urandom(5_000)):
        path = tmp_path / "x.planrun"
        path.write_bytes(data)
        refused(path, "is no run file that can be read")


def test_a_file_that_is_cut_off_anywhere_is_refused(path, tmp_path):
    whole = path.read_bytes()
    part = tmp_path / "part.planrun"
    for length in range(0, len(whole), max(1, len(whole) // 60)):
        part.write_bytes(whole[:length])
        refused(part, "part.planrun")


def test_a_bit_that_flipped_anywhere_is_refused_or_changes_nothing(path, tmp_path):
    whole = path.read_bytes()
    before = open_run(path).run.manifest()
    flipped = tmp_path / "flipped.planrun"
    for place in range(0, len(whole), max(1, len(whole) // 150)):
        flipped.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
        try:
            saved = open_run(flipped)
            assert saved.run.manifest() == before
            assert saved.run.value("a") == ["x" * 500]
        except (RecordDamaged, ArtifactDamaged):
            continue


@pytest.mark.parametrize(
    "name",
    [
        "../evil.py", "/etc/passwd", "artifacts/../../evil", "artifacts\\evil", "C:\\evil",
        "artifacts/", "artifacts/xyz", f"artifacts/{'0' * 63}", f"artifacts/{'A' * 64}",
        "evil.py", "plan.yaml/", "PLAN.YAML", "plan.yaml\0.py", "", "\u202eplan.yaml",
    ],
)  # fmt: skip
def test_a_name_that_is_none_of_a_run_file_is_refused(path, name):
    with zipfile.ZipFile(path, "a") as archive:
        info = zipfile.ZipInfo("x")
        info.filename = info.orig_filename = name  # the maker of a ZipInfo mends some of these
        archive.writestr(info, b"x")
    refused(path, "which belongs into no run file")


@pytest.mark.parametrize("name", ["planrun.json", "journal.jsonl", "plan.yaml"])
def test_a_member_that_is_there_twice_is_refused(path, name):
    found = members(path)
    written(path, [*found.items(), (name, found[name])])
    refused(path, f"it holds {name} twice")


@pytest.mark.parametrize(
    "name", ["planrun.json", "journal.jsonl", "plan.yaml", "manifest.json", "tools.json"]
)
def test_a_member_that_is_missing_is_refused(path, name):
    written(path, [(one, data) for one, data in members(path).items() if one != name])
    refused(path, f"it has no {name}")


@pytest.mark.parametrize("kind", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_packing_that_no_run_file_uses_is_refused(path, kind):
    written(path, members(path).items(), kind)
    refused(path, "is packed in a way that no run file is")


def test_a_member_that_says_it_is_encrypted_is_refused(path):
    data = bytearray(path.read_bytes())
    place = data.find(b"PK\1\2")
    data[place + 8] |= 1
    path.write_bytes(bytes(data))
    refused(path, "is packed in a way")


@pytest.mark.parametrize("name", ["planrun.json", "journal.jsonl", "plan.yaml"])
def test_a_member_that_unpacks_to_a_thousand_times_its_size_is_refused(path, name):
    found = members(path) | {name: b" " * 20_000_000}
    written(path, found.items())
    assert path.stat().st_size < 100_000
    refused(path, f"{name} would be unpacked to 20.0 MB")


def test_a_result_that_unpacks_to_a_thousand_times_its_size_is_refused(path):
    written(path, [*members(path).items(), (f"artifacts/{'0' * 64}", bytes(20_000_000))])
    refused(path, "would be unpacked to 20.0 MB")


def sized(path, name, size):
    """Let the list of members and the member itself say another size."""
    data = bytearray(path.read_bytes())
    encoded = name.encode()
    place = data.rfind(encoded) - 46
    assert data[place : place + 4] == b"PK\1\2"
    struct.pack_into("<L", data, place + 24, size)
    place = data.find(encoded) - 30
    assert data[place : place + 4] == b"PK\3\4"
    struct.pack_into("<L", data, place + 22, size)
    path.write_bytes(bytes(data))


def test_a_member_that_says_it_is_huge_is_refused_unread(path):
    sized(path, "journal.jsonl", 3_900_000_000)
    refused(path, "would be unpacked to 3.9 GB")


@pytest.mark.parametrize("name", ["planrun.json", "journal.jsonl"])
@pytest.mark.parametrize("change", [-1, 1, 100])
def test_a_member_that_lies_about_its_size_is_refused(path, name, change):
    sized(path, name, len(members(path)[name]) + change)
    refused(path, name)


def test_more_members_than_a_run_has_are_refused_unread(path):
    data = path.read_bytes()
    end = bytearray(data[-22:])
    struct.pack_into("<2H", end, 8, 60_000, 60_000)
    path.write_bytes(data[:-22] + bytes(end))
    refused(path, "it has 60,000 members")


def test_a_list_of_members_that_says_it_is_larger_than_the_file_is_refused(path):
    data = path.read_bytes()
    end = bytearray(data[-22:])
    struct.pack_into("<L", end, 12, 4_000_000_000)
    path.write_bytes(data[:-22] + bytes(end))
    refused(path, "it is no zip, or it is cut off")


def test_a_zip_behind_something_else_is_refused(path):
    path.write_bytes(b"#!/bin/sh\nexit\n" + path.read_bytes())
    refused(path, "it is no zip, or it is cut off")


def test_a_zip_with_a_second_list_of_members_is_refused(path):
    # zipfile follows a locator that stands before the end, whatever the end itself says
    data = path.read_bytes()
    start = struct.unpack_from("<L", data, len(data) - 22 + 16)[0]
    record = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 10**6, 10**6, 10**9, 0)
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, len(data) - 22, 1)
    end = bytearray(data[-22:])
    path.write_bytes(data[:-22] + record + locator + bytes(end))
    refused(path, "it is no zip, or it is cut off")
    struct.pack_into("<L", end, 12, len(data) - 22 - start + len(record) + len(locator))
    path.write_bytes(data[:-22] + record + locator + bytes(end))
    refused(path, "it is a zip of another kind")


def test_a_comment_behind_the_list_is_refused(path):
    with zipfile.ZipFile(path, "a") as archive:
        archive.comment = b"x" * 1_000
    refused(path, "it is no zip, or it is cut off")


def test_a_pipe_and_a_device_are_no_files(tmp_path):
    pipe = tmp_path / "pipe.planrun"
    os.mkfifo(pipe)
    with pytest.raises(StoreError, match="is no file"):
        open_run(pipe)
