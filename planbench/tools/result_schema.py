"""What a tool declares its results to be: a JSON Schema, to which each result is held."""

from __future__ import annotations

import copy
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import PydanticSerializationError, to_jsonable_python

from planbench.errors import ResultInvalid
from planbench.tools.problems import Unknowns, path_text, type_name
from planbench.tools.result import ToolResult
from planbench.tools.schema import findings, validator

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planbench.tools.problems import Finding

_TOLD: Final = 3
_KNOWN: Final = Unknowns()


class ResultSchema:
    """The validator of one output schema, built once.

    A tuple counts as an array, a model or dataclass as the object that it is in JSON.
    Raises ToolError for a schema that is not well formed or refers outside of itself.
    """

    def __init__(self, name: str, schema: Mapping[str, Any]) -> None:
        self._name = name
        self._validator = validator(name, copy.deepcopy(dict(schema)))

    def check(self, value: Any) -> None:
        """Raise ResultInvalid for a result that does not fit; names places and types, never a value.

        Of a ToolResult that is what it holds; one that is a refusal holds none.
        """
        if isinstance(value, ToolResult):
            if not value.success:
                return
            value = value.result
        try:
            if self._validator.is_valid(value):
                return
            plain = to_jsonable_python(value)
            errors = list(islice(self._validator.iter_errors(plain), _TOLD))
            problems = [_worded(finding) for one in errors for finding in findings(one, _KNOWN)]
        except RecursionError:
            problems = ["it is nested too deep to be checked"]
            errors = problems
        except (PydanticSerializationError, UnicodeDecodeError):
            problems = [f"it has no form in JSON (got {type_name(value)})"]
            errors = problems
        if errors:
            raise ResultInvalid(self._name, problems or ["it fits none of the allowed forms"])


def _worded(finding: Finding) -> str:
    place = path_text(finding.path).removeprefix("args").lstrip(".") or "it"
    if finding.kind == "missing":
        return f"{place} is missing"
    if finding.kind == "extra":
        return f"{place} is not a known key"
    came = "" if finding.got is None else f" (got {finding.got})"
    return f"{place} {finding.text}{came}"
