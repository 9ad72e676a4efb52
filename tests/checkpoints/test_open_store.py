"""Stores by their address."""

import json
import subprocess
import sys

import pytest

from planbench.checkpoints import CheckpointStore, MemoryStore, open_store
from planbench.errors import ConfigurationError


@pytest.mark.parametrize(
    ("url", "kind", "durable"),
    [
        ("memory", "memory", False), ("memory://", "memory", False),
        ("sqlite:///f.db", "sqlite", True), ("sqlite", "sqlite", True),
        ("postgresql://host/db", "postgres", True), ("postgres://host", "postgres", True),
        ("postgres", "postgres", True), ("redis://host", "redis", False),
        ("rediss://host:1/2", "redis", False), ("redis", "redis", False),
        ("mongodb://host", "mongodb", True), ("mongodb+srv://host/db", "mongodb", True),
        ("mongodb", "mongodb", True),
    ],
)  # fmt: skip
def test_an_address_names_a_store_that_is_not_opened_yet(url, kind, durable, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = open_store(url)
    assert isinstance(store, CheckpointStore)
    assert (store.kind, store.durable) == (kind, durable)
    assert list(tmp_path.iterdir()) == []


def test_the_plain_name_of_sqlite_is_a_file_in_the_folder_of_this_project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert open_store("sqlite").path == tmp_path / ".planbench" / "journal.db"


def test_each_call_gives_a_store_of_its_own():
    assert open_store("memory") is not open_store("memory")
    assert isinstance(open_store("memory"), MemoryStore)


@pytest.mark.parametrize("url", ["nonsense", "", "mysql://u:hunter2@h/d", "sqlite", "/a/file.db"])
def test_an_address_of_no_store_is_a_configuration_error_that_says_what_there_is(url):
    if url == "sqlite":
        url = "sqlite:file.db"
    with pytest.raises(ConfigurationError) as raised:
        open_store(url)
    assert '"memory", "sqlite:///file.db"' in str(raised.value)
    assert "hunter2" not in str(raised.value)


def test_a_store_is_named_by_a_url():
    with pytest.raises(ConfigurationError, match="named by a URL, not by nothing"):
        open_store(None)


@pytest.mark.parametrize(
    ("module", "extra", "url"),
    [("redis", "redis", "redis://host"), ("psycopg", "postgres", "postgresql://host"),
     ("psycopg_pool", "postgres", "postgresql://host"), ("pymongo", "mongodb", "mongodb://host")],
)  # fmt: skip
def test_a_driver_that_is_not_installed_is_named_with_its_extra(module, extra, url):
    program = (
        "import sys\n"
        f"sys.modules[{module!r}] = None\n"
        "from planbench import open_store\n"
        "from planbench.errors import ConfigurationError\n"
        "try:\n"
        f"    open_store({url!r})\n"
        "except ConfigurationError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True
    )
    assert f"needs the package '{module}', which is not installed" in done.stdout
    assert f"pip install 'planbench[{extra}]'" in done.stdout


def test_no_driver_is_loaded_before_a_store_asks_for_it():
    program = (
        "import sys, json\n"
        "from planbench import open_store\n"
        "open_store('memory')\n"
        "open_store('sqlite:///f.db')\n"
        "print(json.dumps(sorted(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert not {"redis", "psycopg", "psycopg_pool", "pymongo", "bson"} & set(
        json.loads(done.stdout)
    )
