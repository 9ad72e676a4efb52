from __future__ import annotations

import functools
import os
import subprocess
import sys

import pytest

from planbench.tools import Tool

PROGRAM = """
import sys
sys.path.insert(0, {folder!r})
from planbench.tools import Tool
import written
space = {{}}
exec("def f(a: int):\\n    return a in {{'x', 'y', 'z'}} or (lambda b: b + 1)(a)", space)
print(Tool.from_function(written.f).fingerprint, Tool.from_function(space["f"]).fingerprint)
"""


def hash_of(obj):
    return hash(obj)


def mark(function, **options):
    return Tool.from_function(function, name="f", **options).fingerprint


def compiled(source):
    space = {}
    exec(source, space)
    return space["f"]


def test_the_same_source_gives_the_same_digest_in_each_process(tmp_path):
    (tmp_path / "written.py").write_text("def f(a: int = 3):\n    return a + 1\n", encoding="utf-8")
    program = PROGRAM.format(folder=str(tmp_path))
    told = {
        subprocess.run(
            [sys.executable, "-c", program],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(told) == 1
    assert len(told.pop().split()) == 2


@pytest.mark.parametrize(
    "other",
    [
        "def f(a: int):\n    return a + 2",
        "def f(a: int):\n    return a - 1",
        "def f(a: str):\n    return a + 1",
        "def f(a: int, b: int = 1):\n    return a + 1",
        "def f(a: int = 3):\n    return a + 1",
        "async def f(a: int):\n    return a + 1",
        "def f(a: int):\n    return (lambda b: b + 1)(a)",
        "def f(a: int):\n    return (lambda b: b + 2)(a)",
    ],
)
def test_a_changed_body_or_signature_changes_the_digest_without_a_source_too(other):
    one = "def f(a: int):\n    return a + 1"
    assert mark(compiled(one)) == mark(compiled(one))
    assert mark(compiled(one)) != mark(compiled(other))


def test_a_changed_body_in_a_file_changes_the_digest():
    def first(a):
        return a + 1

    def second(a):
        return a + 2

    assert mark(first) != mark(second)


def test_what_a_function_binds_is_part_of_it():
    def make(n, how=None):
        def f(a):
            return how(a, n) if how else a * n

        return f

    def f(a, b=1): ...

    assert mark(make(2)) == mark(make(2))
    assert mark(make(2)) != mark(make(3))
    assert mark(make([{"x": {1, 2}}])) == mark(make([{"x": {2, 1}}]))
    assert mark(make([{"x": {1, 2}}])) != mark(make([{"x": {1, 3}}]))
    assert mark(make(2, make(1))) != mark(make(2, make(5)))
    assert mark(functools.partial(f, b=1)) != mark(functools.partial(f, b=2))
    assert mark(functools.partial(f)) != mark(functools.partial(f, b=2))


def test_a_function_that_binds_itself_has_a_digest():
    def make():
        def f(a):
            return f(a - 1) if a else 0

        return f

    assert mark(make()) == mark(make())


def test_both_a_decorator_and_what_it_wraps_count():
    def plus(n):
        def decorate(function):
            @functools.wraps(function)
            def wrapper(a):
                return function(a) + n

            return wrapper

        return decorate

    def one(a):
        return a

    def two(a):
        return -a

    assert mark(plus(1)(one)) == mark(plus(1)(one))
    assert len({mark(plus(1)(one)), mark(plus(2)(one)), mark(plus(1)(two))}) == 3


def test_objects_and_builtins_have_a_digest_without_their_address():
    class Scorer:
        def __call__(self, a): ...

        def method(self, a): ...

    assert mark(Scorer()) == mark(Scorer())
    assert mark(Scorer().method) == mark(Scorer().method)
    assert mark(hash_of) == mark(hash_of)
    assert mark(functools.partial(hash_of, object())) == mark(functools.partial(hash_of, object()))


def test_a_schema_is_part_of_the_digest():
    def call(**args): ...

    one = Tool.from_schema("f", "", {"properties": {"a": {}}}, call)
    two = Tool.from_schema("f", "", {"properties": {"b": {}}}, call)
    assert one.fingerprint != two.fingerprint
    assert one.fingerprint == Tool.from_schema("f", "", {"properties": {"a": {}}}, call).fingerprint
    assert set(one.fingerprint) <= set("0123456789abcdef")
