"""Who may ask what: the page is for browsers on this machine, and for nobody that they are led to by another site."""

from __future__ import annotations

import pytest

from agentd.dashboard.web_guard import HEADERS, Guard

US = {"Host": "127.0.0.1:8420"}
OWN = US | {"Origin": "http://127.0.0.1:8420"}
GUARD = Guard(8420, "secret")


@pytest.mark.parametrize("host", ["127.0.0.1:8420", "localhost:8420", "LOCALHOST:8420", "[::1]:8420", "10.0.0.7:8420"])
def test_numbers_and_localhost_are_us(host: str) -> None:
    assert GUARD.refusal("GET", {"Host": host}) is None


@pytest.mark.parametrize(
    "host",
    [
        "evil.example:8420",
        "127.0.0.1.evil.example:8420",
        "localhost:80",
        "localhost",
        "",
        "127.0.0.1:x",
        ":8420",
        "a" * 999,
    ],
)
def test_a_name_that_somebody_pointed_at_us_is_refused(host: str) -> None:
    refusal = GUARD.refusal("GET", {"Host": host})
    assert refusal is not None
    assert refusal[0] == 421


def test_what_another_site_makes_a_browser_ask_for_is_refused() -> None:
    for site in ("cross-site", "same-site"):
        assert GUARD.refusal("GET", US | {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "cors"}) is not None
        assert GUARD.refusal("GET", US | {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors"}) is not None
    assert GUARD.refusal("GET", US | {"Origin": "http://evil.example"}) is not None
    assert GUARD.refusal("GET", US | {"Origin": "null"}) is not None


def test_a_link_to_the_page_may_be_followed_but_not_framed() -> None:
    follows = US | {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert GUARD.refusal("GET", follows | {"Sec-Fetch-Dest": "document"}) is None
    assert GUARD.refusal("GET", follows | {"Sec-Fetch-Dest": "iframe"}) is not None


def test_a_change_needs_the_token_and_the_pages_own_origin() -> None:
    token = {"X-Agentd-Token": "secret"}
    assert GUARD.refusal("POST", OWN | token) is None
    for headers in (
        OWN,
        US | token,
        OWN | {"X-Agentd-Token": "secre"},
        OWN | token | {"Origin": "http://localhost:8420"},
    ):
        refusal = GUARD.refusal("POST", headers)
        assert refusal is not None
        assert refusal[0] == 403


def test_without_a_token_there_is_nothing_to_guess() -> None:
    for told in ("", "None", "secret"):
        assert Guard(8420, None).refusal("POST", OWN | {"X-Agentd-Token": told}) is not None


def test_no_other_method_is_known() -> None:
    for method in ("PUT", "DELETE", "OPTIONS", "TRACE"):
        assert GUARD.refusal(method, US) is not None


def test_the_policy_forbids_what_was_not_served_by_us() -> None:
    policy = HEADERS["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http:" not in policy
