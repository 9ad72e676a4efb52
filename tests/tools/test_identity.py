"""What code a tool would run now: equal while nothing changed, another after any change, or untold."""

import enum
import functools
import importlib.util
import json
import logging
import sys
import textwrap
from collections import OrderedDict, namedtuple
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path

import pytest

from planbench.tools import Tool, ToolRegistry, tool


def cell(space, text):
    """Run the text as a notebook runs a cell."""
    exec(textwrap.dedent(text), space)


def notebook(text):
    space = {"__name__": "__main__"}
    cell(space, text)
    return space


def identity(function):
    return Tool.from_function(function, name="t").identity()


def changed(space, text, name="t"):
    """Whether a cell gives the tool, made before it ran, another identity; both must be told."""
    made = Tool.from_function(space[name], name="t")
    before = made.identity()
    assert before is not None
    assert made.identity() == before
    cell(space, text)
    after = made.identity()
    assert after is not None
    return after != before


@pytest.mark.parametrize(
    ("first", "then", "differs"),
    [
        ("def h(x): return x\ndef t(x): return h(x)", "def h(x): return -x", True),
        ("def h(x): return x\ndef t(x): return h(x)", "\n\n# moved\ndef h(x):\n  return x", False),
        ("def g(): return 1\ndef h(): return g()\ndef t(): return h()", "def g(): return 2", True),
        ("def h(x=1): return x\ndef t(): return h()", "def h(x=2): return x", True),
        ("def h(*, x=1): return x\ndef t(): return h()", "def h(*, x=2): return x", True),
        ("h = lambda: 1\ndef t(): return h()", "h = lambda: 2", True),
        ("def h(): return 1\ndef t(): return [h() for _ in 'ab']", "def h(): return 2", True),
        ("def h(): return 1\ndef t(): return (lambda: h())()", "def h(): return 2", True),
        ("L = 1\ndef t(): return L", "L = 2", True),
        ("L = 1\ndef t(): return L", "L = 1.0", True),
        ("L = 1\ndef t(): return L", "M = 2", False),
        ("L = [1]\ndef t(): return L", "L = [1]", False),
        ("L = [1]\ndef t(): return L", "L.append(2)", True),
        ("L = {'a': {1, 2}}\ndef t(): return L", "L = {'a': {1, 3}}", True),
        ("L = {'a': {1, 2}}\ndef t(): return L", "L = {'a': {2, 1}}", False),
        ("L = []\nL.append(L)\ndef t(): return L", "L.append(1)", True),
        ("def t(): return L", "L = 2", True),
        ("def t(x): return len(x)", "def len(x): return 0", True),
        ("def t(n): return n and t(n - 1)", "def t(n): return 0", True),
        ("def t(n): return h(n)\ndef h(n): return t(n)", "def h(n): return n", True),
        ("class A:\n def m(self): return 1\ndef t(): return A().m()",
         "class A:\n def m(self): return 2", True),
        ("class A:\n k = 1\nclass B(A): pass\ndef t(): return B().k", "A.k = 2", True),
        ("class A:\n @property\n def m(self): return 1\ndef t(): return A().m",
         "class A:\n @property\n def m(self): return 2", True),
        ("import functools\n@functools.lru_cache\ndef h(): return 1\ndef t(): return h()",
         "@functools.lru_cache\ndef h(): return 2", True),
        ("import re\nP = re.compile('a')\ndef t(x): return P.match(x)", "P = re.compile('b')", True),
        ("def h(): return h.k\nh.k = 1\ndef t(): return h()", "h.k = 2", True),
    ],
)  # fmt: skip
def test_it_follows_what_the_function_reaches_and_nothing_else(first, then, differs):
    assert changed(notebook(first), then) is differs


def test_the_fingerprint_stays_when_a_helper_changes():
    space = notebook("def h(x): return x\ndef t(x): return h(x)")
    made = Tool.from_function(space["t"])
    before = made.fingerprint
    cell(space, "def h(x): return -x")
    assert Tool.from_function(space["t"]).fingerprint == before


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


@dataclass(frozen=True)
class Config:
    root: Path
    tags: tuple = ()
    extra: dict = field(default_factory=dict)

    def read(self, name):
        return str(self.root / name)


@dataclass
class Loose:
    root: Path


Point = namedtuple("Point", "x y")  # noqa: PYI024 - the untyped kind is the case


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Path("a"), Path("b")),
        (Decimal("1.0"), Decimal("1.00")),
        (Colour.RED, Colour.BLUE),
        (Config(Path("a")), Config(Path("b"))),
        (Config(Path("a")), Config(Path("a"), tags=(Colour.RED,))),
        (Point(1, 2), Point(1, 3)),
        ((1, "1"), ("1", 1)),
        (b"a", "a"),
        (0.0, -0.0),
    ],
)
def test_a_value_in_a_closure_a_default_or_a_partial_counts(one, other):
    def closed(value):
        return lambda: value

    def default(value):
        return lambda x=value: x

    def part(value):
        return functools.partial(lambda x, y: (x, y), value)

    for make in (closed, default, part):
        assert identity(make(one)) is not None
        assert identity(make(one)) == identity(make(one))
        assert identity(make(one)) != identity(make(other))


def test_a_method_of_a_frozen_dataclass_counts_with_its_values():
    config = Config(Path("a"))
    assert identity(config.read) is not None
    assert identity(config.read) == identity(Config(Path("a")).read)
    assert identity(config.read) != identity(replace(config, root=Path("b")).read)


def test_an_object_with_state_cannot_be_told():
    class Toolkit:
        def __init__(self):
            self.limit = 1

        def read(self, name):
            return name * self.limit

    class Called:
        def __call__(self, name: str):
            return name

    assert identity(Toolkit().read) is None
    assert identity(Loose(Path()).__eq__) is None
    assert identity(Called()) is None


@pytest.mark.parametrize(
    "value",
    [
        Loose(Path()), OrderedDict(), sys.__stderr__, iter([]), [Loose(Path())], bytearray(),
        Config(Path(), extra={"x": Loose(Path())}), "x" * 2_000_000, list(range(501)),
    ],
)  # fmt: skip
def test_what_cannot_be_told_gives_none(value):
    assert identity(lambda: value) is None


def test_code_that_is_made_while_it_runs_cannot_be_told():
    assert identity(lambda text: eval(text) + 1) is None
    assert identity(lambda text: globals()[text]) is None


def test_an_object_that_raises_when_it_is_looked_at_gives_none():
    class Hostile:
        def __getattribute__(self, name):
            raise RuntimeError(name)

    space = notebook("def t(): return value")
    made = Tool.from_function(space["t"])
    space["value"] = Hostile()
    assert made.identity() is None


def test_a_decorator_counts_with_what_it_wraps():
    text = """
        import functools
        FACTOR = 1
        def helper(x): return x
        def twice(f):
            @functools.wraps(f)
            def inner(*args, **kwargs):
                return f(*args, **kwargs) * FACTOR
            return inner
        @twice
        def t(x): return helper(x)
    """
    assert changed(notebook(text), "FACTOR = 2")
    assert changed(notebook(text), "def helper(x): return -x")


def test_a_tool_that_calls_a_tool_follows_it():
    space = {"__name__": "__main__", "tool": tool}
    cell(
        space,
        "def h(x): return x\n@tool\ndef inner(x: int): return h(x)\ndef t(x): return inner(x)",
    )
    assert changed(space, "def h(x): return -x")


def test_a_tool_of_a_schema_follows_its_call():
    space = notebook("def h(x): return x\ndef call(**args): return h(args)")
    made = Tool.from_schema("t", "", {"type": "object"}, space["call"])
    before = made.identity()
    assert before == made.identity() is not None
    cell(space, "def h(x): return -x")
    assert made.identity() != before


def test_functions_of_installed_modules_loggers_and_sentinels_can_be_told():
    logger, missing, dumps = logging.getLogger("x"), object(), json.dumps

    def work(x):
        logger.info("x")
        return None if x is missing else dumps(json.loads(x))

    assert identity(work) is not None
    assert identity(work) == identity(work)
    assert identity(lambda: dumps) != identity(lambda: json.loads)


@pytest.mark.parametrize(
    "use",
    [
        "import own_code\ndef t(x): return own_code.clean(x)",
        "from own_code import clean\ndef t(x): return clean(x)",
        "def t(x):\n  import own_code\n  return own_code.clean(x)",
        "def t(x):\n  from own_code import clean\n  return clean(x)",
    ],
)
def test_a_module_of_the_user_that_is_loaded_again_counts(use, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    path = tmp_path / "own_code.py"
    path.write_text("LIMIT = 1\ndef clean(x): return x * LIMIT\n")
    spec = importlib.util.spec_from_file_location("own_code", path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "own_code", module)
    spec.loader.exec_module(module)
    made = Tool.from_function(notebook(use)["t"])
    before = made.identity()
    assert before == made.identity() is not None
    module.LIMIT = 2
    assert made.identity() not in {before, None}


def test_a_thousand_globals_that_are_not_read_do_not_matter_and_read_ones_are_too_many():
    names = [f"g{n}" for n in range(1000)]
    space = notebook("\n".join(f"{name} = {n}" for n, name in enumerate(names)))
    cell(space, "def t(): return g1")
    assert not changed(space, "g2 = 'another'")
    cell(space, f"def t(): return [{', '.join(names)}]")
    assert identity(space["t"]) is None


def test_a_bound_tool_of_a_plain_object_is_told_and_one_of_a_toolkit_is_not():
    class Kit:
        @tool
        def read(self, x: int) -> int:
            """Read."""
            return x

    @dataclass(frozen=True)
    class Plain:
        n: int

        @tool
        def read(self, x: int) -> int:
            """Read."""
            return x * self.n

    assert Kit().read.identity() is None
    assert Plain(1).read.identity() == Plain(1).read.identity() is not None
    assert Plain(1).read.identity() != Plain(2).read.identity()
    assert ToolRegistry([Plain(1).read]).get_tool("read").identity() == Plain(1).read.identity()
