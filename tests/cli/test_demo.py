from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import nbformat
import pytest

from planbench.cli import main, notebooks
from planbench.examples.security_sweep import DATA, scan_dates

EXPECTED = json.loads(
    (Path(__file__).parents[1] / "data" / "expected_diff.json").read_text(encoding="utf-8")
)


@pytest.fixture
def executed(monkeypatch):
    """Notes which notebook would be executed, and with what, instead of starting a kernel."""
    calls = []
    monkeypatch.setattr(
        notebooks, "execute", lambda source, target, given: calls.append((target.name, given))
    )
    return calls


@pytest.fixture
def sweep(executed, tmp_path, capsys):
    """Runs the demo without its notebook; gives the exit code and the lines it printed."""

    def run(*words):
        code = main(["demo", "--out", str(tmp_path / "out"), *map(str, words)])
        said = capsys.readouterr()
        return code, said.out.splitlines(), said.err

    return run


def test_the_numbers_are_those_that_were_counted_by_hand(sweep):
    code, lines, err = sweep()

    totals = EXPECTED["totals"]
    severities = totals["new_fail_by_severity"]
    controls = Counter(
        control
        for report in EXPECTED["reports"].values()
        for control in report["soc2_controls_of_new"]
    )
    said = next(line for line in lines if line.startswith("SOC2 controls: "))
    assert (code, err) == (0, "")
    assert f"new {totals['new_fail']}, resolved {totals['resolved']}" in lines
    assert (
        f"new by severity: high {severities['high']}, medium {severities['medium']}, low {severities['low']}"
        in lines
    )
    assert {part.split()[0] for part in said.partition(": ")[2].split(", ")} == set(controls)
    assert "failed report: aws-111122223333-me-south-1 (me-south-1, failed)" in lines


def test_the_page_shows_the_graph_and_the_tables(sweep, tmp_path):
    sweep()

    page = (tmp_path / "out" / "daily_security_sweep.html").read_text(encoding="utf-8")
    for shown in ("<svg", "New findings", "SOC2 controls", "me-south-1", "34 rows", "10 rows"):
        assert shown in page


def test_the_notebook_gets_the_date_and_the_folder(sweep, executed, tmp_path):
    sweep()
    sweep("--data", DATA)

    assert executed[0] == ("02_daily_security_sweep.ipynb", {"date": scan_dates()[0]})
    assert executed[1][1] == {"date": scan_dates()[0], "data": str(DATA.resolve())}


def test_one_flipped_finding_changes_the_numbers(sweep, tmp_path):
    data = tmp_path / "data"
    shutil.copytree(DATA, data)
    report = data / "today" / "aws-111122223333-sa-east-1.json"
    content = json.loads(report.read_text())
    finding = next(row for row in content["findings"] if row["status"] == "PASS")
    finding["status"], finding["severity"] = "FAIL", "critical"
    report.write_text(json.dumps(content))

    code, lines, _ = sweep("--data", data)

    assert code == 0
    assert "new 35, resolved 10" in lines
    assert "new by severity: critical 1, high 3, medium 23, low 8" in lines


def test_another_day_gives_other_numbers(sweep):
    first = scan_dates()[-1]

    code, lines, _ = sweep("--date", first)

    assert code == 0
    assert f"the security scans of {first}" in lines
    assert "new 34, resolved 10" not in lines
    assert any(line.endswith("resolved 0") for line in lines)


def test_a_report_that_is_not_there_makes_the_demo_red(sweep, executed, tmp_path):
    data = tmp_path / "data"
    shutil.copytree(DATA, data)
    (data / "today" / "aws-111122223333-us-east-1.json").write_text("no report")

    code, _, err = sweep("--data", data)

    assert code == 1
    assert "node 'fetch' (s3_get_latest_report)" in err
    assert not executed
    assert (tmp_path / "out" / "daily_security_sweep.html").exists()


def test_a_day_without_scans_names_those_there_are(sweep):
    code, _, err = sweep("--date", "1999-01-01")

    assert code == 1
    assert scan_dates()[0] in err


def test_a_folder_without_reports_is_refused(sweep, tmp_path):
    code, lines, err = sweep("--data", tmp_path)

    assert (code, lines) == (2, [])
    assert "listing_today.json" in err


@pytest.mark.kernel
def test_the_demo_leaves_an_executed_notebook(tmp_path):
    assert main(["demo", "--out", str(tmp_path)]) == 0

    notebook = nbformat.read(tmp_path / "02_daily_security_sweep.ipynb", as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]
    outputs = [output for cell in code for output in cell.outputs]
    assert all(cell.execution_count for cell in code)
    assert not [output for output in outputs if output.output_type == "error"]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert any("<svg" in output.get("data", {}).get("text/html", "") for output in outputs)
    assert "widgets" not in notebook.metadata
