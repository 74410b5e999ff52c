"""YAML as people mean it."""

import pytest

from fairlead.cli.output import yaml_text


def test_words_and_times_are_text_and_numbers_are_decimal() -> None:
    text = b"on: [oom]\nno: yes\nat: 12:30\nday: 2026-01-31T12:00:00Z\nid: 007\nbig: 1_000\n"
    assert yaml_text.read_documents(text) == [
        {
            "on": ["oom"],
            "no": "yes",
            "at": "12:30",
            "day": "2026-01-31T12:00:00Z",
            "id": 7,
            "big": "1_000",
        }
    ]


def test_booleans_null_and_numbers_follow_json() -> None:
    text = b"a: true\nb: False\nc: ~\nd:\ne: null\nf: 0x1f\ng: 1.5e3\nh: -.5\ni: +5\n"
    (found,) = yaml_text.read_documents(text)
    assert found == {
        "a": True, "b": False, "c": None, "d": None, "e": None, "f": 31, "g": 1500.0, "h": -0.5,
        "i": 5,
    }  # fmt: skip


def test_empty_documents_are_skipped() -> None:
    assert yaml_text.read_documents(b"---\n---\na: 1\n---\n") == [{"a": 1}]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"1: x", "the key 1 is not text"),
        (b"jobs: [{env: {true: x}}]", "the key True of jobs[0].env is not text"),
        (b"{", "line 2, column 1: while parsing a flow node, did not find expected"),
        (b"jobs:\n- cpu: 1\n  cpu: 2\n", "line 3, column 3: the key 'cpu' occurs twice"),
        (b"\xff", "UTF-8"),
        (b"a: !!int no", "invalid literal"),
        (b"a: !!python/object:os.system x", "could not determine a constructor"),
    ],
)
def test_values_without_a_json_form_are_refused_with_their_place(text: bytes, says: str) -> None:
    with pytest.raises(yaml_text.Unreadable) as refused:
        yaml_text.read_documents(text)
    assert says in str(refused.value)


def test_aliases_and_merge_keys_repeat_what_they_name() -> None:
    text = b"base: &b {cpu: 1, memory: 2}\njobs: [*b, {<<: *b, cpu: 3}]\n"
    (found,) = yaml_text.read_documents(text)
    assert found == {
        "base": {"cpu": 1, "memory": 2},
        "jobs": [{"cpu": 1, "memory": 2}, {"cpu": 3, "memory": 2}],
    }


@pytest.mark.parametrize(
    "text",
    [
        b"a0: &a0 [x]\n"
        + b"".join(b"a%d: &a%d [%s]\n" % (n, n, b"*a%d, " % (n - 1) * 9) for n in range(1, 12)),
        b"&a [*a]\n",
        b"a: &a {b: *a}\n",
    ],
)
def test_aliases_that_grow_without_end_are_refused(text: bytes) -> None:
    with pytest.raises(yaml_text.Unreadable, match=r"document 1: its aliases make more than"):
        yaml_text.read_documents(text)
