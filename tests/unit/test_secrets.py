"""Passwords in specs: who is not an admin sees `(hidden)`, and may send that back in the same place alone."""

import pytest

from frontier_server.core.rows.errors import InvalidRequest
from frontier_server.service.secrets import hide_secrets, restore_secrets
from toehold.frontier.v1.crawl_pb2 import CrawlSpec, CredentialSpec, FetchSpec, OverrideSettings

SECRET, PREFIX = "s3cret", "https://www.example.com/members/"


def of_proxy(proxy: str) -> FetchSpec:
    return FetchSpec(proxy=proxy)


def of_site(surt_prefix: str = PREFIX, user: str = "me", password: str = SECRET) -> FetchSpec:
    return FetchSpec(credentials=[CredentialSpec(surt_prefix=surt_prefix, user=user, password=password)])


SHOWN = [
    (of_proxy("http://me:s3cret@a.example:1"), of_proxy("http://(hidden)@a.example:1")),
    (of_proxy("http://s3cret:@a.example:1/"), of_proxy("http://(hidden)@a.example:1/")),
    (of_proxy("http://s3cret@[::1]:1"), of_proxy("http://(hidden)@[::1]:1")),
    (of_proxy("http://s3cret:render=false@a.example:1"), of_proxy("http://(hidden)@a.example:1")),
    (of_proxy("http://:s3cret@a.example:1"), of_proxy("http://(hidden)@a.example:1")),
    (of_proxy("http://me:s3cret@s3cret@a.example:1"), of_proxy("http://(hidden)@a.example:1")),
    (of_proxy("HTTP://me:s3cret@a.example:1"), of_proxy("HTTP://(hidden)@a.example:1")),
    (of_proxy("http://me:s3cret@a.example:1#@b.example"), of_proxy("http://(hidden)@a.example:1#@b.example")),
    (of_proxy("http://a.example:1"), of_proxy("http://a.example:1")),
    (of_proxy(""), of_proxy("")),
    (of_site(), of_site(password="(hidden)")),
    (of_site(user=SECRET, password=""), of_site(user="(hidden)", password="")),
]


@pytest.mark.parametrize(("kept", "shown"), SHOWN)
def test_hidden_secrets_are_restored_when_a_spec_is_sent_back(kept: FetchSpec, shown: FetchSpec) -> None:
    for kind in (CrawlSpec, OverrideSettings):
        seen = kind(fetch=kept)
        hide_secrets(seen)
        assert seen == kind(fetch=shown)
        assert SECRET not in str(seen)
        restore_secrets(seen, kept)
        assert seen == kind(fetch=kept)


def test_a_proxy_with_only_its_password_hidden_is_restored() -> None:
    """As former versions showed it."""
    asked = of_proxy("http://me:(hidden)@a.example:1")
    restore_secrets(asked, of_proxy("http://me:s3cret@a.example:1"))
    assert asked == of_proxy("http://me:s3cret@a.example:1")


PROXY = of_proxy("http://me:s3cret@a.example:3128")
MOVED = [
    *(
        (PROXY, of_proxy(proxy), "fetch.proxy must have its name and password")
        for form in ("(hidden)", "me:(hidden)", "%28hidden%29", "me:%28hidden%29")
        for proxy in (
            f"http://{form}@b.example:3128",
            f"http://{form}@a.example:3129",
            f"http://{form}@a.example:31280",
            f"http://{form}@a.example",
            f"http://{form}@a.example.:3128",
            f"http://{form}@sub.a.example:3128",
            f"http://{form}@A.example:3128",
            f"https://{form}@a.example:3128",
            f"HTTP://{form}@a.example:3128",
            f"http://{form}@a.example:3128@b.example:3128",
            f"http://{form}@b.example:3128/@a.example:3128",
            f"http://{form}@b.example:3128#@a.example:3128",
        )
    ),
    (PROXY, of_proxy("http://you:(hidden)@a.example:3128"), "fetch.proxy must have"),
    (PROXY, of_proxy("http://(hidden):@a.example:3128"), "fetch.proxy must have"),
    (PROXY, of_proxy("http://(hidden):other@a.example:3128"), "fetch.proxy must have"),
    (PROXY, of_proxy("http://(hidden):(hidden)@a.example:3128"), "fetch.proxy must have"),
    (PROXY, of_proxy("http://me:(hidden)s3@a.example:3128"), "fetch.proxy must have"),
    (of_proxy("http://a.example:3128"), of_proxy("http://(hidden)@a.example:3128"), "fetch.proxy must have"),
    (FetchSpec(), of_proxy("http://(hidden)@a.example:3128"), "fetch.proxy must have"),
    *(
        (kept, of_site(prefix, asked_user, asked_password), f"credentials[0].{name} must be given")
        for kept, asked_user, asked_password, name in (
            (of_site(), "me", "(hidden)", "password"),
            (of_site(user=SECRET, password=""), "(hidden)", "", "user"),
        )
        for prefix in (
            *("http://www.example.com/members/", "https://www.example.com/", "https://www.example.com"),
            *("https://www.example.com:8443/members/", "https://example.com/members/"),
            *("https://(com,example,", "other.example"),
        )
    ),
    (of_site(), of_site(user="you", password="(hidden)"), "credentials[0].password must be given"),
    (of_site(), of_site(user="(hidden)", password=""), "credentials[0].user must be given"),
    (of_site(), of_site(user="(hidden)", password="(hidden)"), "credentials[0].user must be given"),
    (of_site(user=SECRET, password=""), of_site(user="(hidden)", password="new"), "credentials[0].user must"),
    (FetchSpec(), of_site(password="(hidden)"), "credentials[0].password must be given"),
]


@pytest.mark.parametrize(("kept", "asked", "words"), MOVED)
def test_a_hidden_secret_sent_for_another_proxy_or_site_is_refused(
    kept: FetchSpec, asked: FetchSpec, words: str
) -> None:
    for whole in (CrawlSpec(fetch=asked), OverrideSettings(fetch=asked)):
        with pytest.raises(InvalidRequest) as refused:
            restore_secrets(whole, kept)
        assert words in str(refused.value)
        assert SECRET not in str(whole) + str(refused.value)
