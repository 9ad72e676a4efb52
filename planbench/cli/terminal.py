"""Text on a terminal or in a pipe: always text, never markup and never control codes."""

from __future__ import annotations

import io
import os
import sys
import unicodedata
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from typing import TextIO

_HARMFUL: Final = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})


def printable(text: str) -> str:
    """Write out the characters that would steer a terminal; line breaks and tabs stay."""
    if text.isprintable():
        return text
    return "".join(
        character.encode("unicode_escape").decode("ascii")
        if character not in "\n\t" and unicodedata.category(character) in _HARMFUL
        else character
        for character in text
    )


class Screen:
    """Where the lines of a command go.

    A reader that went away (``planbench run x | head``) ends the lines and not the run.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")

    @property
    def interactive(self) -> bool:
        """Whether somebody is looking at a terminal that can redraw."""
        return self.stream.isatty() and os.environ.get("TERM") not in ("dumb", "")

    @property
    def is_unicode(self) -> bool:
        """Whether every character can be written as it is."""
        return (self.stream.encoding or "").lower().startswith("utf")

    def line(self, text: str = "") -> None:
        """Write the text and a line break, at once."""
        try:
            self.stream.write(printable(text) + "\n")
            self.stream.flush()
        except BrokenPipeError:
            self._leave()

    def write(self, text: str) -> None:
        """Write a whole document as it is."""
        try:
            self.stream.write(text)
            self.stream.flush()
        except BrokenPipeError:
            self._leave()

    def _leave(self) -> None:
        """Send what is still to come nowhere, so that the end of the process is quiet too."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.stream.fileno())
        os.close(nowhere)


def output() -> Screen:
    """Give the standard output as it is now."""
    return Screen(sys.stdout)


def errors() -> Screen:
    """Give the standard error as it is now."""
    return Screen(sys.stderr)
