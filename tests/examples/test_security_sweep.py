import asyncio
import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

from planbench import ToolRegistry, WorkingMemory, check_plan, load_plan, run_plan
from planbench.examples import security_sweep
from planbench.examples.security_sweep import DATA, PLAN, ScanFolder, scan_dates, sweep_tools

ROOT = Path(__file__).parents[2]
EXPECTED = json.loads((ROOT / "tests" / "data" / "expected_diff.json").read_text())
TODAY, BEFORE = "2023-03-18", "2023-03-16"


def sweep(data=DATA, date=TODAY):
    """Call the four tools as the plan does, one after the other."""
    listing_of, fetch, compare, to_soc2 = sweep_tools(data)

    async def fetch_all(rows):
        return [await fetch(row["report_id"], row["path"], row["etag"]) for row in rows]

    listing = listing_of("prowler", date)
    reports = asyncio.run(fetch_all(listing["reports"]))
    diff = compare(reports)
    return listing, diff, to_soc2(diff)


def numbers(diff, soc2):
    """Everything that is counted, to be compared before and after a change of the data."""
    return {
        "new": len(diff["new"]),
        "resolved": len(diff["resolved"]),
        "severity": Counter(row["severity"] for row in diff["new"]),
        "still": sum(row["still_failing"] for row in diff["reports"]),
        "controls": {row["control"]: row["new_findings"] for row in soc2["controls"]},
        "unmapped": sum(row["new_findings"] for row in soc2["unmapped_checks"]),
    }


def of_report(rows, report_id, field="uid"):
    return sorted(row[field] for row in rows if row["report_id"] == report_id)


@pytest.fixture(scope="module")
def swept():
    return sweep()


@pytest.fixture
def copied(tmp_path):
    shutil.copytree(DATA, tmp_path / "scans")
    return tmp_path / "scans"


def edit(data, name, change):
    file = data / name
    body = json.loads(file.read_text())
    change(body)
    file.write_text(json.dumps(body))


def set_status(data, name, check_id, status):
    def change(body):
        (row,) = [row for row in body["findings"] if row["check_id"] == check_id]
        assert row["status"] != status
        row["status"] = status

    edit(data, name, change)


# The whole sweep


def test_the_totals_are_those_that_were_worked_out_beside_the_data(swept):
    _, diff, soc2 = swept
    totals = EXPECTED["totals"]
    counted = numbers(diff, soc2)
    assert counted["new"] == totals["new_fail"] == 34
    assert counted["resolved"] == totals["resolved"] == 10
    assert (
        counted["severity"] == totals["new_fail_by_severity"] == {"high": 3, "medium": 23, "low": 8}
    )
    controls = {
        name for report in EXPECTED["reports"].values() for name in report["soc2_controls_of_new"]
    }
    assert set(counted["controls"]) == controls


@pytest.mark.parametrize("report_id", EXPECTED["reports"])
def test_each_report_gives_what_was_worked_out_for_it(swept, report_id):
    _, diff, soc2 = swept
    expected = EXPECTED["reports"][report_id]
    (row,) = [row for row in diff["reports"] if row["report_id"] == report_id]
    assert of_report(diff["new"], report_id) == sorted(expected["new_fail"])
    assert of_report(diff["resolved"], report_id) == sorted(expected["resolved"])
    assert of_report(diff["severity_changed"], report_id) == sorted(expected["severity_changed"])
    assert of_report(diff["duplicates"], report_id) == sorted(expected["duplicate_uids_today"])
    assert (
        Counter(of_report(diff["new"], report_id, "severity")) == expected["new_fail_by_severity"]
    )
    assert row["n_findings"] == expected["n_today"]
    assert row["n_previous"] == expected["n_previous"]
    assert row["still_failing"] == expected["still_failing"]
    assert row["new"] == len(expected["new_fail"])
    mapped = of_report(soc2["mapped"], report_id, "control")
    assert sorted(set(mapped)) == sorted(expected["soc2_controls_of_new"])
    known = {row["check_id"] for row in soc2["mapped"]}
    unmapped = set(of_report(diff["new"], report_id, "check_id")) - known
    assert sorted(unmapped) == sorted(expected["new_checks_without_soc2"])


def test_every_report_that_was_made_is_compared(swept):
    listing, diff, _ = swept
    assert len(listing["reports"]) == 9
    assert [row["report_id"] for row in diff["reports"]] == list(EXPECTED["reports"])


# One flipped finding changes exactly its numbers

CALM = "aws-111122223333-sa-east-1.json"  # the region in which nothing changed
PORT_22 = "ec2_securitygroup_allow_ingress_from_internet_to_tcp_port_22"


@pytest.mark.parametrize(
    ("file", "check_id", "status", "changes"),
    [
        (
            f"today/{CALM}",
            PORT_22,
            "FAIL",
            {"new": 1, "severity": {"high": 1}, "controls": {"cc_6_6": 1, "cc_7_2": 1}},
        ),
        (
            f"today/{CALM}",
            "emr_cluster_account_public_block_enabled",
            "FAIL",
            {"new": 1, "severity": {"high": 1}, "unmapped": 1},
        ),
        (f"today/{CALM}", "macie_is_enabled", "PASS", {"resolved": 1, "still": -1}),
        (f"today/{CALM}", "macie_is_enabled", "INFO", {"resolved": 1, "still": -1}),
        (f"previous/{CALM}", PORT_22, "FAIL", {"resolved": 1}),
        (
            f"previous/{CALM}",
            "macie_is_enabled",
            "PASS",
            {"new": 1, "severity": {"low": 1}, "still": -1, "unmapped": 1},
        ),
        (f"today/{CALM}", PORT_22, "INFO", {}),
    ],
)
def test_a_flipped_finding_changes_exactly_its_numbers(
    copied, swept, file, check_id, status, changes
):
    set_status(copied, file, check_id, status)
    before, after = numbers(*swept[1:]), numbers(*sweep(copied)[1:])
    for name, count in before.items():
        change = changes.get(name, 0)
        if isinstance(count, Counter | dict):
            assert Counter(after[name]) == Counter(count) + Counter(change or {})
        else:
            assert after[name] == count + change


def test_another_control_map_beside_the_reports_is_the_one_that_counts(copied):
    edit(copied, "soc2_aws.json", lambda body: body.update(controls=body["controls"][:2]))
    _, _, soc2 = sweep(copied)
    assert {row["control"] for row in soc2["controls"]} == {"cc_2_1"}


def test_without_a_control_map_the_packaged_one_counts(copied, swept):
    (copied / "soc2_aws.json").unlink()
    assert sweep(copied)[2] == swept[2]


# The days


def test_the_day_before_has_no_earlier_scan_and_everything_is_new():
    listing, diff, soc2 = sweep(date=BEFORE)
    assert len(listing["reports"]) == 8
    assert listing["failed"] == []
    assert {row["report_id"] for row in diff["without_previous"]} == {
        row["report_id"] for row in listing["reports"]
    }
    failing = {
        (row["report_id"], one["uid"])
        for row in listing["reports"]
        for one in json.loads((DATA / row["path"]).read_text())["findings"]
        if one["status"] == "FAIL"
    }
    assert {(row["report_id"], row["uid"]) for row in diff["new"]} == failing
    assert len(diff["new"]) == len(failing)
    assert diff["resolved"] == diff["severity_changed"] == []
    assert len(soc2["controls"]) > 0


def test_a_day_without_scans_names_the_days_that_have_some():
    with pytest.raises(ValueError, match=f"no scan on 2026-08-06; .*{BEFORE}, {TODAY}"):
        sweep(date="2026-08-06")
    assert scan_dates() == [TODAY, BEFORE]


def test_the_day_of_a_scan_is_that_of_utc(copied):
    def late(body):
        body["reports"][0]["scanned_at"] = "2023-03-18T22:30:00-05:00"

    edit(copied, "listing_today.json", late)
    listing = sweep_tools(copied)[0]("prowler", "2023-03-19")
    assert len(listing["reports"]) == 1


def test_another_scanner_has_no_reports():
    with pytest.raises(ValueError, match="no reports of 'trivy'; there are some of prowler"):
        sweep_tools()[0]("trivy", TODAY)


# The awkward rows of the data


def test_a_failed_report_is_listed_apart_and_never_fetched(swept):
    listing, diff, _ = swept
    assert [row["region"] for row in listing["failed"]] == ["me-south-1"]
    assert all(isinstance(row["path"], str) for row in listing["reports"])
    assert "me-south-1" not in {row["region"] for row in diff["reports"]}


def test_a_failed_report_of_the_day_before_is_no_scan_to_compare_with(copied):
    def fail(body):
        body["reports"][0].update(state="failed", path=None)

    edit(copied, "listing_previous.json", fail)
    _, diff, _ = sweep(copied)
    assert {row["region"] for row in diff["without_previous"]} == {"us-west-1", "eu-west-1"}


def test_an_empty_report_counts_nothing(swept):
    (row,) = [row for row in swept[1]["reports"] if row["region"] == "af-south-1"]
    assert (row["n_findings"], row["new"], row["resolved"], row["still_failing"]) == (0, 0, 0, 0)
    assert row["n_previous"] == 0


def test_a_region_without_a_previous_report_has_only_new_findings(swept):
    _, diff, _ = swept
    (row,) = [row for row in diff["reports"] if row["region"] == "us-west-1"]
    assert row["previous_scan"] is None
    assert row["n_previous"] is None
    assert (row["new"], row["resolved"], row["still_failing"]) == (13, 0, 0)
    assert [row["region"] for row in diff["without_previous"]] == ["us-west-1"]


def test_an_unchanged_region_has_nothing_new(swept):
    (row,) = [row for row in swept[1]["reports"] if row["region"] == "sa-east-1"]
    assert (row["new"], row["resolved"], row["severity_changed"]) == (0, 0, 0)
    assert row["still_failing"] == 13


def test_a_finding_that_is_listed_twice_counts_once(copied, swept):
    assert {row["region"] for row in swept[1]["duplicates"]} == {"eu-west-1"}
    assert [row["times"] for row in swept[1]["duplicates"]] == [2, 2, 2]
    name = "today/aws-111122223333-us-west-1.json"
    edit(copied, name, lambda body: body["findings"].extend(body["findings"]))
    _, diff, _ = sweep(copied)
    assert len(diff["new"]) == len(swept[1]["new"])
    assert len(diff["duplicates"]) == 3 + 34


def test_checks_that_speak_for_no_control_are_counted(swept):
    _, diff, soc2 = swept
    mapped = {(row["report_id"], row["uid"]) for row in soc2["mapped"]}
    unmapped = sum(row["new_findings"] for row in soc2["unmapped_checks"])
    assert len(mapped) + unmapped == len(diff["new"])
    assert len(soc2["unmapped_checks"]) == len(
        {c for report in EXPECTED["reports"].values() for c in report["new_checks_without_soc2"]}
    )


# Listings are not trusted


@pytest.mark.parametrize(
    "path", ["../secret.json", "today/../../secret.json", "{outside}", "link.json", "a\0b", ""]
)
def test_a_path_never_leads_out_of_the_folder(copied, path):
    secret = copied.parent / "secret.json"
    secret.write_text('{"report_id": "x", "region": "x", "scanned_at": "x", "findings": []}')
    (copied / "link.json").symlink_to(secret)
    path = path.replace("{outside}", str(secret))
    with pytest.raises((ValueError, OSError)):
        ScanFolder(copied).read(path)

    def point(body):
        body["reports"][0]["path"] = path

    edit(copied, "listing_today.json", point)
    listing_of, fetch, *_ = sweep_tools(copied)
    row = listing_of("prowler", TODAY)["reports"][0]
    assert row["etag"] is None
    with pytest.raises((ValueError, OSError)):
        asyncio.run(fetch(row["report_id"], row["path"], row["etag"]))


def test_a_file_that_changed_after_it_was_listed_is_refused(copied):
    listing_of, fetch, *_ = sweep_tools(copied)
    row = next(r for r in listing_of("prowler", TODAY)["reports"] if r["path"].endswith(CALM))
    set_status(copied, row["path"], PORT_22, "FAIL")
    with pytest.raises(ValueError, match="changed after it was listed"):
        asyncio.run(fetch(row["report_id"], row["path"], row["etag"]))
    again = next(r for r in listing_of("prowler", TODAY)["reports"] if r["path"] == row["path"])
    assert again["etag"] != row["etag"]
    assert asyncio.run(fetch(row["report_id"], row["path"]))["region"] == "sa-east-1"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ([], "no list 'findings'"),
        ({"findings": None}, "no list 'findings'"),
        ({"findings": [], "region": "x"}, "no report_id, scanned_at"),
        ({"findings": [], "region": "x", "scanned_at": "x", "report_id": "other"}, "is the report"),
    ],
)
def test_a_file_that_is_no_such_report_is_refused(copied, body, said):
    (copied / "today" / CALM).write_text(json.dumps(body))
    with pytest.raises(ValueError, match=said):
        asyncio.run(sweep_tools(copied)[1]("aws-111122223333-sa-east-1", f"today/{CALM}"))


def test_a_folder_without_listings_says_what_it_lacks(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"listing_today\.json"):
        sweep_tools(tmp_path)[0]("prowler", TODAY)


def test_a_folder_without_a_listing_of_the_day_before_is_all_new(copied):
    (copied / "listing_previous.json").unlink()
    _, diff, _ = sweep(copied)
    assert len(diff["without_previous"]) == 9


# The plan and the files beside it


def run(data=DATA, date=TODAY, memory=None):
    registry = ToolRegistry(sweep_tools(data))
    plan = load_plan(PLAN, params={"date": date})
    memory = WorkingMemory() if memory is None else memory
    manifest = asyncio.run(run_plan(plan, registry=registry, memory=memory))
    return manifest, {ref.node_id: ref.facets for ref in manifest.artifacts}


def test_the_plan_fits_the_tools():
    report = check_plan(PLAN, ToolRegistry(sweep_tools()), params={"date": TODAY})
    assert report.issues == []


def test_the_run_completes_and_its_facets_tell_what_was_found(swept):
    memory = WorkingMemory()
    manifest, facets = run(memory=memory)
    _, diff, soc2 = swept
    assert manifest.status == "completed"
    assert facets["listing"] == {
        "n_reports": 9,
        "n_failed": 1,
        "failed_regions": {"me-south-1": 1},
    }
    assert facets["diff"]["n_new"] == 34
    assert facets["diff"]["n_resolved"] == 10
    assert facets["diff"]["n_duplicates"] == 3
    assert facets["diff"]["new_by_severity"] == {"medium": 23, "low": 8, "high": 3}
    assert facets["diff"]["without_previous"] == {"us-west-1": 1}
    assert facets["soc2"]["new_by_control"] == {
        row["control"]: row["new_findings"] for row in soc2["controls"]
    }
    assert facets["soc2"]["n_unmapped_checks"] == len(soc2["unmapped_checks"])
    assert memory["diff"] == diff
    assert len(memory.df("diff", "new[]")) == 34
    assert len(memory.concat("fetch", "findings[]", label="stored as")) == 425


def test_one_memory_holds_the_sweep_of_the_day_that_ran_last(copied):
    memory = WorkingMemory()
    for date in (TODAY, BEFORE):
        run(copied, date=date, memory=memory)
    assert memory["diff"] == sweep(date=BEFORE)[1]
    assert len(memory["fetch"]) == 8
    set_status(copied, f"today/{CALM}", PORT_22, "FAIL")
    manifest, facets = run(copied, memory=memory)
    assert facets["diff"]["n_new"] == 35
    assert manifest.items["fetch"].reused == 1  # us-west-1, which the day before does not have


def test_a_report_that_is_missing_makes_the_run_partial_and_is_named(copied):
    (copied / "today" / CALM).unlink()
    manifest, _ = run(copied)
    assert manifest.status == "partial"
    (fetch,) = [ref for ref in manifest.artifacts if ref.node_id == "fetch"]
    assert any(CALM in error for error in fetch.errors)


def test_the_packaged_plan_is_the_one_in_plans():
    assert PLAN.read_bytes() == (ROOT / "plans" / PLAN.name).read_bytes()


def test_the_notebook_shows_the_plan_of_the_file():
    notebook = json.loads((ROOT / "notebooks" / "02_daily_security_sweep.ipynb").read_text())
    cells = ["".join(cell["source"]) for cell in notebook["cells"]]
    (body,) = [cell.partition("\n")[2] for cell in cells if cell.startswith("%%plan")]
    assert body.strip() == PLAN.read_text().strip()


def test_the_data_carries_its_licences():
    assert "DefectDojo, Inc." in (DATA / "LICENSE-BSD-3-Clause").read_text()
    assert "Apache License, Version 2.0" in (DATA / "LICENSE-Apache-2.0").read_text()
    readme = (DATA / "README.md").read_text()
    for name in ("today", "previous", "listing_today.json", "soc2_aws.json"):
        assert name in readme


def test_the_module_is_a_source_of_its_four_tools():
    names = [one.__name__ for one in security_sweep.tools]

    assert ToolRegistry([security_sweep]).names() == sorted(names, key=names.index)
    assert ToolRegistry(security_sweep.tools).names() == names
