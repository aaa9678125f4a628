"""Which links a node remembers that the frontier has taken in."""

from crawler_node.leases.offers import MAX_KNOWN_LINKS, RecentLinks


def uri(number: int) -> str:
    return f"http://a.example/{number}"


def test_the_latest_links_are_remembered_and_those_before_forgotten() -> None:
    known, count = RecentLinks(), 3 * MAX_KNOWN_LINKS
    for number in range(count):
        known.add(uri(number))
    assert not any(uri(number) in known for number in range(count - MAX_KNOWN_LINKS))
    assert all(uri(number) in known for number in range(count - MAX_KNOWN_LINKS // 2, count))


def test_a_link_that_every_page_has_stays_remembered() -> None:
    known = RecentLinks()
    known.add("http://a.example/on-each-page")
    for number in range(3 * MAX_KNOWN_LINKS):
        known.add(uri(number))
        if number % 1_000 == 0:
            assert "http://a.example/on-each-page" in known
    assert "http://a.example/on-each-page" in known
