from __future__ import annotations

import pytest

from planbench.plan.bounds import MOST, bounded


def test_a_record_of_a_common_size_stays_the_same_object():
    record = {"id": "a", "args": {f"k{i}": i for i in range(5 * MOST)}, "depends_on": ["b"]}

    assert bounded(record) is record


def test_however_many_texts_a_field_holds_they_stay():
    names = [f"n{i}" for i in range(5 * MOST)]
    facets = {"paths": dict.fromkeys(names, "x"), **dict.fromkeys(names, "count([])")}
    record = {"id": "a", "depends_on": names, "facets": facets}

    assert bounded(record) == record


@pytest.mark.parametrize("field", ["depends_on", "tools"])
def test_of_what_is_no_text_in_a_list_the_first_are_kept(field):
    found = bounded({"id": "a", field: [*range(3 * MOST), "last"]})

    assert found == {"id": "a", field: [*range(MOST), "last"]}


def test_of_unknown_fields_the_first_are_kept_and_the_known_ones_all():
    extra = {f"k{i}": 1 for i in range(3 * MOST)}
    record = {**extra, "id": "a", "for_each": {**extra, "source": "x"}, "facets": {"paths": extra}}
    found = bounded(record)

    few = {f"k{i}": 1 for i in range(MOST)}
    assert found == {
        **few,
        "id": "a",
        "for_each": {**few, "source": "x"},
        "facets": {"paths": few},
    }
    assert len(record["for_each"]) == 3 * MOST + 1


def test_of_requirements_those_that_name_a_module_stay_and_a_thousand_others():
    places = {f"t{i}": {"module": "m", "version": "1"} for i in range(3 * MOST)}
    wrong = {f"w{i}": {"modul": "m"} for i in range(3 * MOST)}
    found = bounded({"name": "p", "requires": {**places, **wrong}})

    few = {f"w{i}": {"modul": "m"} for i in range(MOST)}
    assert found == {"name": "p", "requires": {**places, **few}}
