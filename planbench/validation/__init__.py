"""Checks of a plan against the tools, secrets and limits of a host."""

from planbench.validation.calls import no_match, no_tool
from planbench.validation.check import check_plan, validate_plan
from planbench.validation.given import built, document_of
from planbench.validation.host import patterns_of, registry_of, secrets_of
from planbench.validation.report import ValidationReport
from planbench.validation.text import read_text

__all__ = [
    "ValidationReport",
    "built",
    "check_plan",
    "document_of",
    "no_match",
    "no_tool",
    "patterns_of",
    "read_text",
    "registry_of",
    "secrets_of",
    "validate_plan",
]
