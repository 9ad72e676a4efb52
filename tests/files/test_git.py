from __future__ import annotations

import shutil
import subprocess

import pytest

from planbench.errors import PlanInvalid, PlanLoadError
from planbench.files import PlanFileStore, load_plan

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")

SWEEP = "name: sweep\nobjective: o\nnodes:\n  - {id: a, tool: t, args: {n: 1}}\n"


def numbered(n):
    return SWEEP.replace("n: 1", f"n: {n}")


@pytest.fixture
def git(tmp_path, monkeypatch):
    """Runs git in a work tree with one branch; no setting of the host counts."""
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "none"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    tree = tmp_path / "tree"
    tree.mkdir()

    def call(*words):
        who = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
        done = subprocess.run(
            ["git", "-C", tree, *who, *words], capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    call("init", "-q", "-b", "main")
    return call


@pytest.fixture
def store(git, tmp_path):
    """A plans folder in the tree: n is 1 at v1, 2 at main, and 3 in the file."""
    store = PlanFileStore(tmp_path / "tree" / "plans")
    store.plans_dir.mkdir()
    for n in (1, 2):
        (store.plans_dir / "sweep.yaml").write_text(numbered(n))
        git("add", "-A")
        git("commit", "-q", "-m", str(n))
        if n == 1:
            git("tag", "v1")
            git("branch", "feature/größe")
    (store.plans_dir / "sweep.yaml").write_text(numbered(3))
    return store


def value(store, name):
    return store.load(name).nodes[0].args["n"]


def test_a_plan_is_read_as_a_branch_a_tag_or_a_commit_has_it(store, git):
    assert value(store, "sweep") == 3
    assert value(store, "sweep@main") == 2
    assert value(store, "sweep@v1") == 1
    assert value(store, "sweep@HEAD~1") == 1
    assert value(store, "sweep@HEAD^") == 1
    assert value(store, "sweep@@") == 2
    assert value(store, "sweep@main@{0}") == 2
    assert value(store, "sweep@feature/größe") == 1
    assert value(store, f"sweep@{git('rev-parse', 'v1')}") == 1
    assert store.read("sweep@v1") == numbered(1)


def test_digits_alone_are_a_version_and_never_a_commit(store):
    assert value(store, "sweep@1") == 3


def test_a_plan_whose_file_is_gone_or_has_another_ending_is_found_in_a_commit(store, git):
    git("mv", "-f", "plans/sweep.yaml", "plans/sweep.yml")
    git("commit", "-q", "-m", "moved")
    (store.plans_dir / "sweep.yml").unlink()
    assert value(store, "sweep@HEAD") == 2
    assert value(store, "sweep@main~1") == 2


def test_a_plans_folder_that_is_the_top_of_the_tree_is_read_too(git, tmp_path):
    store = PlanFileStore(tmp_path / "tree")
    (store.plans_dir / "sweep.yaml").write_text(numbered(1))
    git("add", "-A")
    git("commit", "-q", "-m", "x")
    (store.plans_dir / "other").mkdir()
    assert value(store, "sweep@HEAD") == 1


def test_parameters_are_put_in_and_errors_name_the_ref(store, git):
    (store.plans_dir / "sweep.yaml").write_text(numbered('"{params.n}"'))
    git("commit", "-aqm", "params")
    assert store.load("sweep@main", {"n": 5}).nodes[0].args == {"n": 5}
    with pytest.raises(PlanInvalid) as caught:
        store.load("sweep@main", {})
    assert caught.value.path == "sweep@main"


@pytest.mark.parametrize(
    "ref",
    [
        "--output=x", "-h", "main:plans/sweep.yaml", "HEAD:../secret", ":/fix", "a b", "main..v1", "main^{/x}",
        "main\n", "v1;ls", "$(ls)", "main@{yesterday}", "../main", ".git", "x" * 300, "a\\b", "*", "^main", "é\u202e",
    ],
)  # fmt: skip
def test_what_is_no_plain_ref_never_reaches_git(store, ref, monkeypatch):
    def never(*_, **__):
        raise AssertionError("git was called")

    monkeypatch.setattr(subprocess, "run", never)
    with pytest.raises(PlanLoadError, match="neither a version's number nor a git ref"):
        store.load(f"sweep@{ref}")


def test_a_ref_that_git_does_not_know_is_named(store):
    with pytest.raises(PlanLoadError, match="git knows no commit 'nowhere'"):
        store.load("sweep@nowhere")


def test_a_ref_that_is_no_commit_is_refused(store, git):
    blob = git("rev-parse", "HEAD:plans/sweep.yaml")
    with pytest.raises(PlanLoadError, match="git"):
        store.load(f"sweep@{blob}")


def test_a_plan_that_was_not_there_yet_is_named(store):
    with pytest.raises(PlanLoadError, match="at 'main' the plans folder has no plan 'other'"):
        store.load("other@main")


def test_a_link_in_a_commit_is_not_followed(store, git):
    (store.plans_dir / "linked.yaml").symlink_to("sweep.yaml")
    git("add", "-A")
    git("commit", "-q", "-m", "link")
    with pytest.raises(PlanLoadError, match="is a link or a folder"):
        store.load("linked@main")


def test_two_files_of_one_name_in_a_commit_are_not_chosen_between(store, git):
    (store.plans_dir / "sweep.json").write_text("{}")
    git("add", "-A")
    git("commit", "-q", "-m", "both")
    with pytest.raises(PlanLoadError, match="not plain at 'main'"):
        store.load("sweep@main")


def test_outside_of_a_work_tree_the_error_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    store = PlanFileStore(tmp_path / "plans")
    store.save(SWEEP, "sweep")
    with pytest.raises(PlanLoadError, match="is in no git work tree") as caught:
        store.load("sweep@main")
    assert type(caught.value) is PlanLoadError
    with pytest.raises(PlanLoadError, match="no plans folder"):
        PlanFileStore(tmp_path / "nowhere").load("sweep@main")


def test_what_an_outer_git_left_in_the_environment_leads_nowhere_else(store, tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_WORK_TREE", str(tmp_path))
    assert value(store, "sweep@main") == 2


def test_without_git_the_error_says_so(store, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(PlanLoadError, match="there is no git"):
        store.load("sweep@main")


def test_a_git_that_hangs_is_given_up(store, monkeypatch):
    def hang(*_, timeout, **__):
        raise subprocess.TimeoutExpired("git", timeout)

    monkeypatch.setattr(subprocess, "run", hang)
    with pytest.raises(PlanLoadError, match="no answer within 30 s"):
        store.load("sweep@main")


def test_a_plan_in_utf_16_is_read_from_a_commit_as_from_a_file(store, git):
    (store.plans_dir / "wide.yaml").write_bytes(SWEEP.encode("utf-16"))
    git("add", "-A")
    git("commit", "-q", "-m", "wide")
    assert store.load("wide@main") == store.load("wide") == load_plan(SWEEP)


def test_a_name_at_a_ref_stands_for_its_text(store):
    assert store.source("sweep@v1") == numbered(1)
