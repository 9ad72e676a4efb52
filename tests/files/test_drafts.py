from __future__ import annotations

import threading

import pytest

from planbench.errors import PlanLoadError
from planbench.files import PlanFileStore

PLAN = "name: sweep\nobjective: o\nnodes:\n  - {id: a, tool: t}\n"


@pytest.fixture
def store(tmp_path):
    return PlanFileStore(tmp_path / "plans")


def test_each_draft_has_a_number_of_its_own_and_none_is_replaced(store):
    assert store.drafts.keep(PLAN, "sweep") == "drafts/sweep-1"
    assert store.drafts.keep(PLAN, "sweep") == "drafts/sweep-2"
    assert store.drafts.keep("no plan", "other") == "drafts/other-1"
    assert (store.plans_dir / "drafts" / "sweep-1.yaml").read_text() == PLAN
    assert store.drafts.names() == ["drafts/other-1", "drafts/sweep-1", "drafts/sweep-2"]


def test_drafts_of_several_writers_never_meet(store):
    names = []
    writers = [
        threading.Thread(target=lambda: names.append(store.drafts.keep(PLAN, "sweep")))
        for _ in range(12)
    ]
    for one in writers:
        one.start()
    for one in writers:
        one.join()
    assert sorted(names) == sorted({f"drafts/sweep-{number}" for number in range(1, 13)})


def test_a_draft_is_read_by_its_name_and_is_no_plan_of_the_folder(store):
    name = store.drafts.keep(PLAN, "sweep")
    assert store.load(name).name == "sweep"
    assert store.read(name) == PLAN
    assert store.list() == []
    with pytest.raises(PlanLoadError, match="bare name"):
        store.save(PLAN, name)


def test_the_latest_draft_is_that_of_the_highest_number(store):
    assert store.drafts.latest("sweep") is None
    for _ in range(11):
        store.drafts.keep(PLAN, "sweep")
    store.drafts.keep(PLAN, "sweep-12")
    assert store.drafts.latest("sweep") == "drafts/sweep-11"


@pytest.mark.parametrize(
    ("name", "draft"),
    [
        ("../../etc/x", "drafts/etc_x-1"),
        ("a b/c\\d:e", "drafts/a_b_c_d_e-1"),
        (".hidden", "drafts/hidden-1"),
        ("", "drafts/plan-1"),
        ("???", "drafts/plan-1"),
        ("été", "drafts/été-1"),
        ("n" * 500, f"drafts/{'n' * 80}-1"),
    ],
)
def test_any_name_of_a_plan_gives_a_file_in_the_folder(store, name, draft):
    assert store.drafts.keep(PLAN, name) == draft
    (path,) = (store.plans_dir / "drafts").iterdir()
    assert store.source(draft) == path


@pytest.mark.parametrize(
    "name", ["drafts/../sweep", "drafts//etc/passwd", "drafts/", "drafts/none"]
)
def test_no_name_of_a_draft_leads_out_of_the_folder(store, name):
    store.drafts.keep(PLAN, "sweep")
    with pytest.raises(PlanLoadError):
        store.read(name)


def test_a_folder_of_drafts_that_is_a_link_elsewhere_is_not_used(store, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "secret-1.yaml").write_text(PLAN)
    store.plans_dir.mkdir()
    (store.plans_dir / "drafts").symlink_to(elsewhere)
    for attempt in (
        lambda: store.read("drafts/secret-1"),
        lambda: store.drafts.keep(PLAN, "sweep"),
        store.drafts.names,
    ):
        with pytest.raises(PlanLoadError, match="leads out"):
            attempt()
    assert [path.name for path in elsewhere.iterdir()] == ["secret-1.yaml"]


def test_what_cannot_be_written_is_told(store):
    store.plans_dir.write_text("a file")
    with pytest.raises(PlanLoadError, match="draft of plan 'sweep' cannot be written"):
        store.drafts.keep(PLAN, "sweep")
