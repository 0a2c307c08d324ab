"""Terms as a file: written and read back, and refused in one line where anything is wrong."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentd.core.terms import Terms
from agentd.errors import ConfigurationError
from agentd.terms_file import (
    MAX_FILE_BYTES,
    read_terms_file,
    terms_from_json,
    terms_text,
    terms_to_json,
    write_terms_file,
)

sys.path.append(str(Path(__file__).parent / "wire"))
import terms_samples

SAMPLES = terms_samples.sample_terms()
PLAIN = terms_to_json(terms_samples.documented_terms())


@pytest.mark.parametrize("terms", SAMPLES.values(), ids=SAMPLES)
def test_terms_survive_the_way_through_a_file(tmp_path: Path, terms: Terms) -> None:
    write_terms_file(tmp_path / "terms.json", terms)
    assert read_terms_file(tmp_path / "terms.json") == terms
    assert len(terms_text(terms)) < MAX_FILE_BYTES


def test_anybody_may_read_the_file_and_it_is_never_half_written(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        write_terms_file(tmp_path / "terms.json", SAMPLES["open"])
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "terms.json").stat().st_mode) == 0o644
    assert [path.name for path in tmp_path.iterdir()] == ["terms.json"]


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot write .*: No such file or directory; name another place"):
        write_terms_file(tmp_path / "nowhere" / "terms.json", SAMPLES["open"])


def test_a_whole_number_does_for_an_epsilon() -> None:
    plain = json.loads(json.dumps(PLAIN))
    plain["policies"][0]["epsilon"] = 1
    assert terms_from_json(plain) == terms_samples.documented_terms()


def refusal(path: Path) -> str:
    with pytest.raises(ConfigurationError) as fault:
        read_terms_file(path)
    assert fault.value.exit_code == 78
    text = str(fault.value)
    assert "\n" not in text
    assert len(text) < 600
    return text.removeprefix(f"cannot take the terms in {path}: ").removesuffix(
        "; make them anew with agentd terms make"
    )


def holding(tmp_path: Path, content: str | bytes) -> Path:
    path = tmp_path / "terms.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "it is not JSON"),
        ("{", "it is not JSON"),
        (b"\xff\xfe", "it is not text in UTF-8"),
        ("[]", "the terms must be a JSON object"),
        ("{}", "the terms must have format, run"),
        ("[" * 100_000, "it is nested too deeply"),
        ('{"a": ' * 30_000, "it is nested too deeply"),
        (" " * (MAX_FILE_BYTES + 1), "it is longer than"),
        ('{"arms": ' + "1" * 10_000 + "}", "digits"),
        ('{"arms": NaN}', "NaN is no number in JSON"),
        ('{"arms": 1, "arms": 2}', "it says something twice"),
    ],
    ids=range(11),
)
def test_what_is_no_terms_is_refused_in_one_line(tmp_path: Path, content: str | bytes, complaint: str) -> None:
    assert complaint in refusal(holding(tmp_path, content))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"format": 2}, "its format is 2, and this program knows 1"),
        ({"format": True}, "its format is True"),
        ({"more": 1}, "must not have 'more'"),
        ({"run": "00"}, "run has another length"),
        ({"run": "00112233445566 f"}, "run must be hexadecimal digits"),
        ({"run": 5}, "run must be hexadecimal digits, got 5"),
        ({"arms": 0}, "arms is out of range"),
        ({"arms": 1.0}, "arms is of another type"),
        ({"arms": True}, "arms is of another type"),
        ({"lifetime": "half"}, "lifetime is of another type"),
        ({"clock": "sundial"}, "clock must be null, lockstep or free, got 'sundial'"),
        ({"clock": []}, "clock must be null, lockstep or free"),
        ({"interval_us": 5}, "interval is out of range"),
        ({"beacon": "zz"}, "beacon must be hexadecimal digits"),
        ({"policies": {}}, "policies must be a list"),
        ({"policies": ["ucb1"]}, "a policy must be a JSON object"),
        ({"policies": [{}]}, "a policy must have algorithm, tag"),
        ({"policies": [{**PLAIN["policies"][0], "epsilon": 0}]}, "epsilon is out of range"),
        ({"policies": [{**PLAIN["policies"][0], "epsilon": 10**400}]}, "epsilon is out of range"),
        ({"policies": [PLAIN["policies"][0]] * 2}, "policies is out of range"),
        ({"policies": [{**PLAIN["policies"][0], "ids": [[0, 1], [1, 2]]}]}, "ids is out of range"),
    ],
    ids=range(21),
)
def test_terms_that_cannot_be_are_refused_by_name(tmp_path: Path, change: dict, complaint: str) -> None:
    assert complaint in refusal(holding(tmp_path, json.dumps(PLAIN | change)))


def test_what_is_not_a_file_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert refusal(tmp_path / "pipe") == "it is not a file"
    assert refusal(tmp_path) == "it is not a file"
    assert refusal(Path("/dev/zero")) == "it is not a file"
    assert refusal(tmp_path / "nowhere") == "No such file or directory"


def test_a_link_to_a_file_is_followed_because_clusters_hand_files_over_so(tmp_path: Path) -> None:
    write_terms_file(tmp_path / "terms.json", SAMPLES["open"])
    (tmp_path / "link").symlink_to(tmp_path / "terms.json")
    assert read_terms_file(tmp_path / "link") == SAMPLES["open"]


unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)


@unhurried
@given(st.sampled_from(sorted(PLAIN)), JSON_VALUES)
def test_whatever_a_key_says_it_is_taken_or_refused(key: str, value: object) -> None:
    with contextlib.suppress(ValueError):
        terms_from_json(PLAIN | {key: value})


@unhurried
@given(st.sampled_from(sorted(PLAIN["policies"][0])), JSON_VALUES)
def test_whatever_a_policy_says_it_is_taken_or_refused(key: str, value: object) -> None:
    with contextlib.suppress(ValueError):
        terms_from_json(PLAIN | {"policies": [PLAIN["policies"][0] | {key: value}]})
