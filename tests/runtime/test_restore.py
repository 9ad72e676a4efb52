"""What a continued run says of a value that it cannot have."""

import asyncio

import pytest

from planbench import Workbench, load_plan
from planbench.errors import RunRefused

SECRET = "s3cr3t-value-of-the-token"
DIGEST = 64  # hexadecimal digits
LARGE = "a value of its own file " * 10_000


async def give(value=None):
    return value


async def boom():
    raise ValueError("boom")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder in which a workbench remembers by default."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PLANBENCH_STORE")
    monkeypatch.setenv("TOKEN", SECRET)
    return tmp_path


def refusal(value, between=lambda: None, **options):
    """The refusal to resume, in another workbench, a run whose node "a" gave the value."""
    plan = {
        "name": "p",
        "objective": "o",
        "nodes": [
            {"id": "a", "tool": "give", "args": {"value": value}},
            {"id": "b", "tool": "boom", "depends_on": ["a"]},
        ],
    }

    async def main():
        first, second = (Workbench([give, boom], **options) for _ in range(2))
        try:
            run = await first.start(load_plan(plan))
            await run
            await first.close()
            between()
            with pytest.raises(RunRefused) as caught:
                await second.resume(run.run_id)
        finally:
            await second.close()
        return caught.value

    return asyncio.run(main())


def stored(folder):
    (file,) = (path for path in folder.rglob("*.*") if len(path.stem) == DIGEST)
    return file


@pytest.mark.parametrize("change", [b"", b'"another"', b"\x00"])
def test_a_file_that_is_not_what_was_stored_is_told_as_damaged(folder, change):
    refused = refusal(LARGE, lambda: stored(folder).write_bytes(change))

    assert refused.code == "artifacts_unavailable"
    assert "not what was stored" in refused.message
    assert "damaged or was changed" in refused.hint
    assert "a run from the start, or a fork that changes 'a', calls its tool again" in refused.hint
    assert "durable store" not in refused.hint


def test_a_file_that_is_gone_is_told_as_such(folder):
    refused = refusal(LARGE, lambda: stored(folder).unlink())

    assert "is not there" in refused.message
    assert "pruned" in refused.hint


def test_a_value_that_held_a_secret_is_told_by_the_name_of_it(folder):
    refused = refusal("{env.TOKEN}", env={"TOKEN": ["give"]})

    assert refused.code == "artifacts_unavailable"
    assert "it held the value of a secret ({env.TOKEN})" in refused.message
    assert "give back no secret" in refused.hint
    assert SECRET not in str(refused)
