"""How a host wants runs to be kept and continued."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, get_args

from planbench.errors import ConfigurationError
from planbench.plan.source import shown

if TYPE_CHECKING:
    from planbench.memory.scope import TaskScope

Durability = Literal["sync", "async", "exit"]
DurableValues = Literal["require", "best_effort"]
StoreErrorPolicy = Literal["fail", "wait", "go_on"]

LEASE_VARIABLE: Final = "PLANBENCH_LEASE_TTL"
MAX_REPAIR_ROUNDS: Final = 2


@dataclass(frozen=True, slots=True)
class PlanRecoveryConfig:
    """Limits that only the host sets; raises ConfigurationError for a value out of range.

    ``max_repair_rounds`` is 0 to 2. ``max_restore_bytes`` bounds what a continuation reads
    back, ``checkpoint_probe_timeout`` and ``lease_ttl`` are seconds; the environment
    variable PLANBENCH_LEASE_TTL goes before the latter. ``on_store_error`` says whether a
    run whose store fails ends (``fail``), waits for it (``wait``), or goes on with nothing
    more of it on record (``go_on``), which is logged.
    """

    max_repair_rounds: int = MAX_REPAIR_ROUNDS
    max_restore_bytes: int = 64 * 1024 * 1024
    checkpoint_probe_timeout: float = 2.0
    lease_ttl: float = 30.0
    on_store_error: StoreErrorPolicy = "fail"

    def __post_init__(self) -> None:
        rounds = self.max_repair_rounds
        if type(rounds) is not int or not 0 <= rounds <= MAX_REPAIR_ROUNDS:
            raise _wrong("max_repair_rounds", rounds, f"0 to {MAX_REPAIR_ROUNDS}")
        if type(self.max_restore_bytes) is not int or self.max_restore_bytes < 0:
            raise _wrong("max_restore_bytes", self.max_restore_bytes, "a number of bytes")
        for name in ("checkpoint_probe_timeout", "lease_ttl"):
            if not _is_seconds(getattr(self, name)):
                raise _wrong(name, getattr(self, name), "seconds above 0")
        if self.on_store_error not in get_args(StoreErrorPolicy):
            raise _wrong("on_store_error", self.on_store_error, '"fail", "wait" or "go_on"')

    @property
    def lease_seconds(self) -> float:
        """The time to live of a lease: what the environment says, else ``lease_ttl``."""
        said = os.environ.get(LEASE_VARIABLE, "")
        if not said:
            return self.lease_ttl
        try:
            seconds = float(said)
        except ValueError:
            seconds = 0.0
        if not _is_seconds(seconds):
            raise _wrong(LEASE_VARIABLE, said, "seconds above 0")
        return seconds


def recovery_of(given: object) -> PlanRecoveryConfig:
    """Give the settings as they are, or the defaults; raises ConfigurationError for anything else."""
    if given is None:
        return PlanRecoveryConfig()
    if not isinstance(given, PlanRecoveryConfig):
        raise _wrong("recovery", given, "a PlanRecoveryConfig(...)")
    return given


def scope_of(given: object) -> TaskScope | None:
    """Give a scope as it is; raises ConfigurationError for what is none."""
    if given is None:
        return None
    from planbench.memory.scope import TaskScope  # noqa: PLC0415 - opens fsspec, which few runs need

    if not isinstance(given, TaskScope):
        raise _wrong("scope", given, 'a TaskScope("my-team")')
    return given


def durable_values_of(value: object) -> DurableValues:
    """Give it as it is; raises ConfigurationError for what is none."""
    for known in get_args(DurableValues):
        if value == known:
            found: DurableValues = known
            return found
    raise _wrong("durable_values", value, '"require" or "best_effort"')


def durability_of(value: object) -> Durability:
    """Give a durability as it is; raises ConfigurationError for what is none."""
    for known in get_args(Durability):
        if value == known:
            found: Durability = known
            return found
    raise _wrong("durability", value, '"sync", "async" or "exit"')


def _is_seconds(value: object) -> bool:
    return type(value) in (int, float) and 0 < value < math.inf  # type: ignore[operator]  # a number, by the test before


def _wrong(name: str, value: object, allowed: str) -> ConfigurationError:
    return ConfigurationError(f"{name} is {shown(value)}", hint=f"it takes {allowed}")
