"""Secrets: read from the environment at the call, handed to the tool, and written nowhere."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from planbench.errors import PlaceholderError, RunRefused
from planbench.runtime.masking import Masking

if TYPE_CHECKING:
    from collections.abc import Mapping


class Secrets(Masking):
    """The secrets that the plan of one run names, and the masking of their values.

    A variable that changes during the run is read anew at each call; its former values
    stay masked. The values are held as long as the run is, for its previews.
    """

    __slots__ = ("_latest",)

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__()
        self._latest: dict[str, str | None] = dict.fromkeys(names)

    def get(self, name: str) -> str:
        """Give the value as it is now; raises PlaceholderError where there is none."""
        if name not in self._latest:
            msg = f"{{env.{name}}} is not given to this plan"
            raise PlaceholderError(msg)
        value = os.environ.get(name)
        if not value:
            msg = f"{{env.{name}}}: the variable {name} is not set any more"
            raise PlaceholderError(msg)
        if value != self._latest[name]:
            self.learn(name, value)
            self._latest[name] = value
        return value


def open_secrets(wanted: Mapping[str, str]) -> Secrets | None:
    """Read the variables that a plan names, each with the first node that does.

    None for a plan without secrets. Raises RunRefused ``env_missing`` for a variable
    that is not set, or is empty.
    """
    if not wanted:
        return None
    missing = [name for name in wanted if not os.environ.get(name)]
    if missing:
        told = (
            f"node {wanted[name]!r} reads {{env.{name}}}, and the variable {name} is"
            f" {'empty' if name in os.environ else 'not set'}"
            for name in missing
        )
        raise RunRefused(
            "env_missing",
            "; ".join(told),
            node_id=wanted[missing[0]],
            hint="set it in the environment of this process,"
            f' in a notebook with: os.environ["{missing[0]}"] = getpass.getpass()',
        )
    secrets = Secrets(tuple(wanted))
    for name in wanted:
        secrets.get(name)
    return secrets
