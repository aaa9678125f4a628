"""The default name of a client's operator."""

import getpass
import os
import socket

import pytest

from toehold_client.rpc.channel import operator_metadata


def name_by(monkeypatch: pytest.MonkeyPatch, user: str, host: str) -> str:
    """The name of a user on a host."""
    monkeypatch.setattr(getpass, "getuser", lambda: user)
    monkeypatch.setattr(socket, "gethostname", lambda: host)
    ((key, value),) = operator_metadata("")
    assert key == "toehold-operator"
    return value


def test_it_is_the_user_at_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    assert name_by(monkeypatch, "ada", "engine") == "ada@engine"


def test_what_cannot_be_sent_of_it_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    assert name_by(monkeypatch, "zoë b", "x" * 200) == "zo??b@" + "x" * 122


@pytest.mark.parametrize("error", [KeyError, OSError])
def test_a_user_without_a_name_is_told_by_number(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def nameless() -> str:
        raise error("no name found for the user")

    monkeypatch.setattr(getpass, "getuser", nameless)
    monkeypatch.setattr(socket, "gethostname", lambda: "engine")
    assert operator_metadata("") == (("toehold-operator", f"{os.getuid()}@engine"),)
