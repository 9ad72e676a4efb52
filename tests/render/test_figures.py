from __future__ import annotations

import pytest

from planbench.render.figures import duration, size


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 ms"),
        (0.0124, "12 ms"),
        (0.9994, "999 ms"),
        (0.9996, "1.0 s"),
        (3.44, "3.4 s"),
        (59.96, "1 min 00 s"),
        (125, "2 min 05 s"),
        (3599.6, "1 h 00 min"),
        (3725, "1 h 02 min"),
        (90_000, "25 h 00 min"),
    ],
)
def test_a_time_is_told_in_the_unit_that_people_use(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (12_345, "12.3 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (4_000_000_000, "4.0 GB"),
        (2_500_000_000_000, "2.5 TB"),
        (5_000_000_000_000_000, "5000.0 TB"),
    ],
)
def test_a_size_is_told_in_steps_of_a_thousand(nbytes, text):
    assert size(nbytes) == text
