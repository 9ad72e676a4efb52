"""What models send, and how it is read."""

from planbench.llm.parsing import Extracted, extract

__all__ = ["Extracted", "extract"]
