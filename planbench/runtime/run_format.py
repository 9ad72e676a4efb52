"""What a run file holds: one zip, its members, its limits, and what is said of values left out.

=====================  ===========================================================
planrun.json           the format, the run, who wrote the file, and what is left out
plan.yaml              the plan that ran, to be read by people
journal.jsonl          every event in record form, one a line: the run is made of it
manifest.json          the manifest, to be read by other programs
tools.json             the tools that it called: fingerprint, module, package, version
artifacts/<sha256>     the results, as ``planbench.memory.codecs`` writes them
=====================  ===========================================================
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from planbench.memory.sizes import format_bytes

FORMAT: Final = 1
ENDING: Final = ".planrun"

HEADER: Final = "planrun.json"
PLAN: Final = "plan.yaml"
JOURNAL: Final = "journal.jsonl"
MANIFEST: Final = "manifest.json"
TOOLS: Final = "tools.json"
BODIES: Final = "artifacts/"

MOST_BYTES: Final = 2_000_000_000
"""Bytes of all results in one file."""
MOST_BODIES: Final = 50_000
"""Results in one file: what a zip without extensions holds."""
MOST_TEXT: Final = 256_000_000
"""Bytes of the journal, and of any other member that is no result."""
MOST_LINE: Final = 64_000_000
"""Bytes of one event: the first one holds the plan."""
MOST_EVENTS: Final = 2_000_000
MOST_TOKENS: Final = 8_000_000
"""Commas and opening brackets in all events together: what parsing them costs grows with these."""
TOKEN_BYTES: Final = 64
"""Bytes of ``max_bytes`` for each of them, where that allows more."""
DEEPEST: Final = 200
"""Levels of lists and maps within one event: more than a plan may have."""
PACKED: Final = 250
"""How many times larger than its packed form a member may be; no writer of ours comes near."""
LEFT_OUT: Final = 1_000
"""Lines about what is left out."""
NAMED_KEYS: Final = 5


class LeftOut(NamedTuple):
    """Values of one node that are not in the file, for one reason; ``keys`` names the first of them."""

    node_id: str
    values: int
    nbytes: int
    reason: str
    keys: tuple[str, ...] = ()

    def __str__(self) -> str:
        values = "1 value" if self.values == 1 else f"{self.values:,} values"
        return f"{self.node_id}: {values}, {format_bytes(self.nbytes)}: {self.reason}"

    def to_dict(self) -> dict[str, Any]:
        """Give it as the file holds it."""
        return {**self._asdict(), "keys": list(self.keys)}


class ToolRecord(NamedTuple):
    """A tool as it was when the run began; ``package`` and ``version`` where it was installed."""

    name: str
    fingerprint: str
    module: str = ""
    package: str | None = None
    version: str | None = None
