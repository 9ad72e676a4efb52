"""Masking: known values are taken out of every text that is recorded or shown.

A value is found as it is and as it is commonly written elsewhere: quoted for a URL, in
base64, escaped for JSON, Python or HTML. A value of fewer than four characters is not
looked for, since half of all texts would hold it.
"""

from __future__ import annotations

import base64
import html
import json
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, quote_plus

from planbench import events as ev
from planbench.runtime.output import as_utf8

if TYPE_CHECKING:
    from collections.abc import Iterator

SHORTEST: Final = 4
"""Characters from which on a value is masked."""
SHORTEST_LINE: Final = 8
"""Characters from which on a line of a value of many lines is masked alone."""
SHORTEST_CUT: Final = 200
"""Characters that a text has at least when something was cut off its end."""
ELLIPSES: Final = ("...", "\N{HORIZONTAL ELLIPSIS}")

TEXTS: Final = ("error", "reason", "text", "warning", "message")
"""Fields of events that hold text of tools, or text made from it."""
MAPS: Final = ("facets", "cancelled", "note")
"""Fields of events that are maps by names of the plan, with such text as values."""

Span = tuple[int, int, str]


class Masking:
    """Replaces what it has learnt by ``***NAME***``; may be asked from any thread.

    What is masked already stays as it is when it is masked again.
    """

    __slots__ = ("_forms", "_marks", "_values")

    def __init__(self) -> None:
        self._forms: dict[str, str] = {}
        self._marks: tuple[str, ...] = ()
        self._values: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {', '.join(self._marks) or 'nothing'}>"

    def __reduce__(self) -> Any:
        raise TypeError("what is to be masked is written nowhere, and so it cannot be pickled")

    def learn(self, name: str, value: str) -> None:
        """Mask a value from now on, beside those that the name had before."""
        found = dict.fromkeys(forms(value), name)
        mark = f"***{name}***"
        # New maps each time: another thread may be in the middle of the old ones.
        self._forms = {**found, **self._forms}
        self._values = {value.strip(): name, **self._values} if found else self._values
        self._marks = tuple(dict.fromkeys((*self._marks, mark)))

    def holds(self, text: str) -> bool:
        """Whether a text holds a value that is masked, in any form."""
        return any(form in text for form in self._forms)

    def mask(self, text: str) -> str:
        """Give the text without the values, nor the beginning of one where the text was cut."""
        spans = self._spans(text)
        cut = self._cut(text)
        if cut is not None:
            spans.append(cut)
        return _replaced(text, spans)

    def head(self, text: str, limit: int) -> str:
        """Give the beginning of a text, masked before it is cut."""
        longest = max(map(len, self._forms), default=0)
        return self.mask(text[: limit + longest])[:limit]

    def clean(self, value: Any) -> Any:
        """Mask all texts in a JSON value, keys of maps too, and numbers that are a value."""
        if isinstance(value, str):
            return self.mask(value)
        if isinstance(value, dict):
            return self._clean_map(value)
        if isinstance(value, list | tuple):
            return [self.clean(one) for one in value]
        if isinstance(value, int | float) and not isinstance(value, bool):
            name = self._values.get(str(value))
            return value if name is None else f"***{name}***"
        return value

    def event(self, kind: str, data: dict[str, Any]) -> dict[str, Any]:
        """Give the data of an event with the texts of tools masked; ids and names stay."""
        cleaned: dict[str, Any] = {n: self.clean(data[n]) for n in TEXTS if n in data}
        if kind == ev.ITEM_FAILED and "key" in data:  # nothing was stored under it
            cleaned["key"] = self.mask(data["key"])
        for name in MAPS:
            if name in data:
                cleaned[name] = {key: self.clean(one) for key, one in data[name].items()}
        return {**data, **cleaned} if cleaned else data

    def split(self, text: str) -> tuple[str, str]:
        """Give what can be shown of a text that goes on, masked, and the rest as it came.

        The rest begins where a value may have begun that is not complete yet.
        """
        start = self._started(text)
        spans = self._spans(text)
        for first, last, _ in sorted(spans, reverse=True):
            if first < start < last:
                start = first
        ready = _replaced(text[:start], [span for span in spans if span[1] <= start])
        return ready, text[start:]

    def _clean_map(self, value: dict[Any, Any]) -> dict[Any, Any]:
        cleaned: dict[Any, Any] = {}
        for key, one in value.items():
            said, new = self.clean(key), self.clean(one)
            old = cleaned.get(said)
            # two groups may have become one
            both = isinstance(old, int) and isinstance(new, int)
            cleaned[said] = old + new if both else new
        return cleaned

    def _spans(self, text: str) -> list[Span]:
        found = [
            (at, at + len(form), name)
            for form, name in self._forms.items()
            if form in text
            for at in _places(text, form)
        ]
        if not found or "***" not in text:
            return found
        masked = [(at, at + len(mark)) for mark in self._marks for at in _places(text, mark)]
        return [
            span
            for span in found
            if not any(start <= span[0] and span[1] <= stop for start, stop in masked)
        ]

    def _cut(self, text: str) -> Span | None:
        """Find the beginning of a value at the end of a text that was cut there."""
        whole = text
        for ellipsis in ELLIPSES:
            whole = whole.removesuffix(ellipsis)
        if whole is text and len(text) < SHORTEST_CUT:
            return None
        start = self._started(whole)
        if len(whole) - start < SHORTEST:
            return None
        name = next(name for form, name in self._forms.items() if form.startswith(whole[start:]))
        return start, len(whole), name

    def _started(self, text: str) -> int:
        """Give the place from which on the text is the beginning of a value, or its end."""
        best = len(text)
        for form in self._forms:
            at = text.find(form[0], max(0, len(text) - len(form) + 1), best)
            while at >= 0:
                if form.startswith(text[at:]):
                    best = at
                    break
                at = text.find(form[0], at + 1, best)
        return best


def _places(text: str, part: str) -> Iterator[int]:
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + 1)


def _replaced(text: str, spans: list[Span]) -> str:
    if not spans:
        return text
    pieces: list[str] = []
    end = 0
    for first, last, name in sorted(spans, key=lambda span: (span[0], -span[1])):
        if first >= end:
            pieces += (text[end:first], f"***{name}***")
        end = max(end, last)
    return "".join((*pieces, text[end:]))


def forms(value: str) -> set[str]:
    """Give the texts that show a value; none for one of fewer than four characters."""
    if len(value.strip()) < SHORTEST:
        return set()
    lines = [line.strip() for line in value.splitlines()]
    texts = {value, value.strip()}
    if len(lines) > 1:
        texts.update(line for line in lines if len(line) >= SHORTEST_LINE)
    found = {form for text in texts for form in _written(text)}
    return {form for form in found if len(form) >= SHORTEST}


def _written(text: str) -> Iterator[str]:
    data = text.encode("utf-8", "surrogateescape")
    yield text
    yield as_utf8(text)
    for quoted in (quote(data, safe=""), quote(data), quote_plus(data)):
        yield quoted
        yield _lower_escapes(quoted)
    yield json.dumps(text)[1:-1]
    yield json.dumps(text, ensure_ascii=False)[1:-1]
    for write in (repr, ascii):
        yield write(text)[1:-1]
        yield write(f"{text}'\"")[1:-4]  # within a longer text that holds both kinds of quotes
    yield repr(data)[2:-1]
    yield html.escape(text)
    yield html.escape(text, quote=False)
    yield data.hex()
    yield data.hex().upper()
    yield from _base64(data)


def _lower_escapes(quoted: str) -> str:
    head, *rest = quoted.split("%")
    return "%".join([head, *(part[:2].lower() + part[2:] for part in rest)])


def _base64(data: bytes) -> Iterator[str]:
    """Write in base64, alone and as part of more, where its place in a group of three varies."""
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        whole = encode(data).decode()
        yield whole
        yield whole.rstrip("=")
        for before, foreign in enumerate((0, 2, 3)):
            text = encode(bytes(before) + data).decode()
            shared = (0, 3, 2)[(before + len(data)) % 3]  # its last bits stand beside others
            yield text[foreign : len(text) - shared]
