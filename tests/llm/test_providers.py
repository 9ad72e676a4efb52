import pytest

from planbench.errors import ConfigurationError
from planbench.llm import FakeLLMClient, LLMHandler, OpenAIClient, client_of
from planbench.llm.endpoints import PROVIDERS


class Own:
    async def complete(self, request):
        return None


class Needy(Own):
    def __init__(self, more):
        self.more = more


def test_a_string_names_a_provider_and_a_model(monkeypatch):
    monkeypatch.setenv("GEMINI_API_KEY", "k")
    client = client_of("google:gemini-2.5-flash")

    assert isinstance(client, OpenAIClient)
    assert repr(client) == (
        "<OpenAIClient 'gemini-2.5-flash' at "
        "https://generativelanguage.googleapis.com/v1beta/openai>"
    )
    assert client_of(" Gemini : x ").provider == "google"


def test_a_model_may_have_a_colon_of_its_own():
    assert client_of("ollama:llama3.2:3b").model == "llama3.2:3b"


def test_a_local_server_needs_no_key():
    for name in ("ollama", "lmstudio", "llamacpp", "vllm"):
        assert "127.0.0.1" in repr(client_of(f"{name}:m"))


@pytest.mark.parametrize("name", [name for name, one in PROVIDERS.items() if one.keys])
def test_a_missing_key_names_every_variable_that_may_hold_it(name):
    with pytest.raises(ConfigurationError) as caught:
        client_of(f"{name}:m")

    for variable in PROVIDERS[name].keys:
        assert variable in str(caught.value)


@pytest.mark.parametrize("name", [name for name, one in PROVIDERS.items() if one.keys])
def test_a_key_of_one_provider_is_no_key_for_another(name, monkeypatch):
    for variable in PROVIDERS[name].keys:
        monkeypatch.setenv(variable, "k")

    client_of(f"{name}:m")
    for other in PROVIDERS.values():
        if other.keys and other.name != name:
            with pytest.raises(ConfigurationError):
                client_of(f"{other.name}:m")


def test_the_address_of_openai_in_the_environment_moves_no_other_provider(monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "https://proxy.example.org/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("GROQ_API_KEY", "k")

    assert "proxy.example.org" in repr(client_of("openai:m"))
    assert "api.groq.com" in repr(client_of("groq:m"))


def test_an_unknown_provider_names_a_near_one():
    with pytest.raises(ConfigurationError, match="did you mean 'ollama'"):
        client_of("olama:x")
    with pytest.raises(ConfigurationError, match="known: openai, "):
        client_of("llama3.2:3b")


@pytest.mark.parametrize(
    "spec",
    [None, 7, "", "gpt-5", "openai:", [], {}, {"model": "m"}, {"provider": "ollama"}, object()],
)
def test_what_is_no_model_is_refused_with_an_example(spec):
    with pytest.raises(ConfigurationError) as caught:
        client_of(spec)

    assert "write" in caught.value.hint


def test_a_dict_takes_the_options_of_a_client(monkeypatch):
    own = {"provider": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1"}

    assert "127.0.0.1:9" in repr(client_of({**own, "api_key": "k"}))
    assert "gpu-box" in repr(
        client_of({"provider": "ollama", "model": "m", "base_url": "http://gpu-box:11434/v1"})
    )
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    with pytest.raises(ConfigurationError, match="needs its own api_key"):
        client_of(own)
    assert own == {"provider": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1"}


@pytest.mark.parametrize(
    "url", ["127.0.0.1:80", "ftp://x/v1", "http://", "http://[x/v1", "http://x:y/"]
)
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(ConfigurationError, match="no http address"):
        OpenAIClient("m", url, "k")


def test_a_client_is_taken_as_it_is_and_a_class_is_made():
    own, fake = Own(), FakeLLMClient(lambda request: "x")

    assert client_of(own) is own
    assert client_of(fake) is fake
    assert isinstance(client_of(Own), Own)
    handler = LLMHandler(fake)
    assert client_of(handler) is handler
    with pytest.raises(ConfigurationError, match="Needy cannot be made"):
        client_of(Needy)
