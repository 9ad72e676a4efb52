"""Checks of a plan against the tools, secrets and limits of a host."""

from planbench.validation.check import check_plan, validate_plan
from planbench.validation.report import ValidationReport
from planbench.validation.text import read_text

__all__ = ["ValidationReport", "check_plan", "read_text", "validate_plan"]
