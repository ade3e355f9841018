"""Periods of usage: every hour is in one of each kind, and they follow on each other without gaps."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given, strategies as st

from hostler.model.usage import Period, first_hour, period_of

HOURS = st.integers(0, 24 * 366 * 400)


@given(st.sampled_from(Period), HOURS)
def test_an_hour_is_in_its_period(per: Period, hour: int) -> None:
    number = period_of(per, hour)
    assert first_hour(per, number) <= hour < first_hour(per, number + 1)


@given(HOURS)
def test_months_and_weeks_are_those_of_the_calendar(hour: int) -> None:
    at = datetime.fromtimestamp(hour * 3600, UTC)
    month = datetime.fromtimestamp(first_hour(Period.MONTH, period_of(Period.MONTH, hour)) * 3600, UTC)
    assert month == at.replace(day=1, hour=0)
    week = datetime.fromtimestamp(max(first_hour(Period.WEEK, period_of(Period.WEEK, hour)), 96) * 3600, UTC)
    assert week.weekday() == 0
