import pytest

from planbench.llm.layout import after_thoughts, has_keys, is_flow, is_yaml, yaml_blocks

KEYS = ("nodes", "plan")
PLAN = "name: p\nnodes:\n- id: a\n"


def yaml(text, **options):
    return is_yaml(text, 0, len(text), KEYS, **options)


def blocks(text):
    return [(text[b.text_start : b.text_end], b.is_closed) for b in yaml_blocks(text, 0, KEYS)]


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("plain", "plain"),
        ("<think>a {b}</think>c", "c"),
        ("\n <reasoning>\na\n</reasoning>\n\n<think>b</think>c", "c"),
        ("I was asked.\nSo {b}.\n</think>\n\nc", "\n\nc"),
        ('{"a": "</think>"}', '{"a": "</think>"}'),
        ("{\n</think>\n}", "{\n</think>\n}"),
        ("text: |\n  </think>\n", "text: |\n  </think>\n"),
        ("see <think>a\n</think>\nb", "see <think>a\n</think>\nb"),
    ],
)
def test_reasoning_before_the_answer_is_passed_over(text, rest):
    assert text[after_thoughts(text) :] == rest


@pytest.mark.parametrize("text", ["<think>", "<think>a </thinking> b", "<think>a</think> <think>b"])
def test_reasoning_that_never_ends_leaves_no_answer(text):
    assert after_thoughts(text) is (
        0 if text.count("</think>") and "<think>b" not in text else None
    )


@pytest.mark.parametrize(
    "text",
    [
        PLAN,
        "# a comment\n---\n" + PLAN,
        "nodes: [{id: a}]\n",
        '"nodes":\n- id: a\n',
        "nodes: &all # each\n- id: a\n",
        "plan:\n  nodes: []\n",
        "nodes:\n{}".replace("{}", "  [\n]\n"),
        "  name: p\n  nodes:\n  - id: a\n",
        "name: p\r\nnodes:\r\n- id: a\r\n",
        "name: p\nnodes:\n- id: a\n  text: |\n    ```json\n    {}\n    ```\n",
        'name: p\nnodes:\n- args: {"steps": []}\n',
        "name: p\nobjective: o\n",
        "objective: o\nnoodes: []\n",
    ],
)
def test_lines_of_a_plan_are_yaml(text):
    assert yaml(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        "I cannot plan.",
        "Sorry: no.",
        '{"nodes": []}',
        "The plan:\n```yaml\nname: p\nnodes: []\n```",
        "name: sweep\n\n```json\n{}\n```",
        "plan:\n```json\n{}\n```",
        'plan:\n\n{"nodes": []}',
        "- name: p\n",
        "some nodes: []\n",
        "  nodes: []\nprose",
        "  ```\nname: p\nnodes:\n- id: a\n  ```\n",
    ],
)
def test_other_lines_are_not(text):
    assert not yaml(text)


def test_in_a_fence_the_key_of_a_plan_must_be_there_with_something_like_its_value():
    assert yaml(PLAN, is_fenced=True)
    assert not yaml("name: CI\nobjective: o\n", is_fenced=True)
    assert not yaml("nodes: are named below\n", is_fenced=True)
    assert yaml("nodes: are named below\n")


def test_a_plan_in_the_braces_of_yaml_is_told_from_prose():
    def flow(text):
        return is_flow(text, 0, len(text), KEYS)

    assert flow("{name: p, nodes: [{id: a}]}\n")
    assert flow("\n{\n  nodes: [\n    {id: a, tool: {artifacts.x}}]}")
    assert not flow('{"nodes": []}')
    assert not flow("{nodes} are listed in {x}")
    assert not flow("{x: nodes}")
    assert not flow("{nodes: [}")
    assert not flow("see {nodes: []}")


def test_keys_at_the_margin_may_be_meant_as_a_plan():
    assert has_keys("nmae: x\nobjctive: y\n", 0)
    assert not has_keys("Sorry: no.\nI cannot.", 0)
    assert not has_keys("Here is: a\nThis is: b\n", 0)


def test_a_fence_with_a_plan_in_it_is_found_among_others():
    text = f"Run\n```bash\necho {{x}}\n```\n\n~~~~ yaml\n{PLAN}~~~~\n```\nnodes\n```\n"

    assert blocks(text) == [(PLAN, True)]
    assert blocks("   ```\r\n   nodes:\r\n   - id: a\r\n   ```\r\n") == [
        ("   nodes:\r\n   - id: a\r\n", True)
    ]
    assert blocks("```\n{nodes: [{id: a}]}\n```") == [("{nodes: [{id: a}]}\n", True)]


def test_a_fence_inside_of_the_plan_is_its_text():
    plan = f"{PLAN}  text: |\n    ```python\n    x\n    ```\n\n    ~~~\n"

    assert blocks(f"```yaml\n{plan}```\nnodes: []\n") == [(plan, True)]


def test_a_stray_fence_before_it_does_no_harm():
    for stray in ("```\n", "~~~\n", "```\nx\n```\n```\n", "    ```\n", "`````\n"):
        assert blocks(f"{stray}prose\n```yaml\n{PLAN}```\nend\n") == [(PLAN, True)]
    assert blocks(f"````md\n```yaml\n{PLAN}```\n````\n") == [(PLAN, True)]


def test_a_fence_that_stays_open_is_known_as_such():
    assert blocks(f"```yaml\n{PLAN}") == [(PLAN, False)]
    assert blocks(f"````\n{PLAN}```\n") == []


def test_many_fences_are_paired_in_one_pass():
    text = "".join(f"{' ' * (i % 50)}{'`~'[i % 2] * 3}\nx\n" for i in range(20_000))

    assert blocks(text) == []
