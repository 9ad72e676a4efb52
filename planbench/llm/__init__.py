"""Models: who is asked, what an answer costs, and how what they send is read."""

from planbench.llm.client import (
    Message,
    ModelClient,
    ModelReply,
    ModelRequest,
    ReplySchema,
    ToolCall,
    ToolSpec,
    Usage,
)
from planbench.llm.fake import FakeLLMClient
from planbench.llm.handler import LLMHandler
from planbench.llm.openai import OpenAIClient
from planbench.llm.parsing import Extracted, extract
from planbench.llm.providers import client_of

__all__ = [
    "Extracted",
    "FakeLLMClient",
    "LLMHandler",
    "Message",
    "ModelClient",
    "ModelReply",
    "ModelRequest",
    "OpenAIClient",
    "ReplySchema",
    "ToolCall",
    "ToolSpec",
    "Usage",
    "client_of",
    "extract",
]
