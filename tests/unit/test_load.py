"""The rates of a shard's load."""

from frontier_server.service.load import Sample, rates


def test_rates_are_over_the_time_between_two_samples() -> None:
    assert rates(Sample(100, 7.5, 40), Sample(110, 15, 90)) == (5.0, 0.75)


def test_there_are_no_rates_at_one_moment() -> None:
    assert rates(Sample(100, 7.5, 40), Sample(100, 7.5, 40)) == (0.0, 0.0)
