"""Addresses are shown without what is secret in them, however odd they are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planbench.checkpoints.addresses import options_of, secrets_of_url, shown_address
from planbench.errors import ConfigurationError


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://host:6379/0", "redis://host:6379/0"),
        ("redis://:word@host:6379/0?ttl=5", "redis://host:6379/0"),
        ("postgresql://me:wo/rd@host/db?sslmode=require", "postgresql://host/db"),
        ("postgresql://me:w@rd@host/db", "postgresql://host/db"),
        ("postgresql://me:wo?rd@host/db", "postgresql://"),
        ("postgresql://host/db?user=me&password=word", "postgresql://host/db"),
        ("postgresql://host/db?password=wo@rd", "postgresql://"),
        ("mongodb://me:word@h1:1,h2:2/db?replicaSet=x", "mongodb://h1:1,h2:2/db"),
        ("word", "***"),
    ],
)
def test_an_address_is_shown_without_its_credentials(url, shown):
    assert shown_address(url) == shown
    assert "word" not in shown


@given(
    st.sampled_from(["redis", "postgresql", "mongodb"]),
    st.text(alphabet="ab@:/?#%&=[] ", max_size=6).map(lambda text: f"w0rd{text}w0rd"),
    st.sampled_from(["host", "h1:1,h2:2", "[::1]:5"]),
    st.sampled_from(["", "/0", "/db?x=1", "?x=@"]),
)
def test_no_password_shows_however_it_is_written(scheme, password, host, rest):
    assert "w0rd" not in shown_address(f"{scheme}://me:{password}@{host}{rest}")


def test_secrets_are_known_as_written_and_as_meant():
    assert secrets_of_url("redis://:a%20b@host/0") == ["a%20b", "a b"]
    assert secrets_of_url("postgresql://host/db?password=abc&user=me") == ["abc"]
    assert secrets_of_url("redis://host/0?ttl=5") == []


def test_options_of_ours_are_taken_out_and_the_others_stay():
    assert options_of("redis://h/0?ttl=5&db=2&x=a%26b", ("ttl",)) == (
        "redis://h/0?db=2&x=a%26b",
        {"ttl": "5"},
    )
    assert options_of("redis://h/0?ttl=", ("ttl",)) == ("redis://h/0", {"ttl": ""})
    assert options_of("redis://h/0", ("ttl",)) == ("redis://h/0", {})


@pytest.mark.parametrize("url", ["redis://[::1", "redis://h/0?ttl"])
def test_an_address_that_cannot_be_read_is_a_configuration_error(url):
    with pytest.raises(ConfigurationError, match="cannot be read"):
        options_of(url, ("ttl",))
