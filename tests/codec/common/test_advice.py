"""A sentence with advice in it: Python's words as text, and those of the command wherever it was carried."""

from __future__ import annotations

import json
import pickle

from kafkalog.codec.common.advice import Advice, Ask, Sentence
from kafkalog.codec.common.errors import RecoveryRefused, UsageError
from kafkalog.words.advice import in_options, told

LIVE = Sentence("/a{}/--into is live: extract it with ", Ask.INTO)
UNDONE = Sentence(Advice("{} restores the run", Ask.UNDO, {"root": "/d r", "run": "r1"}))


def test_text_is_for_python_and_only_advice_is_said_in_other_words() -> None:
    assert LIVE == "/a{}/--into is live: extract it with into"
    assert told(LIVE) == "/a{}/--into is live: extract it with --into"
    assert UNDONE == "undo(Undo(run_ids=['r1']), '/d r') restores the run"
    assert told(UNDONE) == "`kafkalog undo '/d r' --run r1` restores the run"


def test_sentences_are_put_together_and_sent_to_other_processes() -> None:
    both = pickle.loads(pickle.dumps(Sentence.joined("; ", ["first", LIVE, Sentence("then ", UNDONE)])))
    assert both == f"first; {LIVE}; then {UNDONE}"
    assert told(both) == f"first; {told(LIVE)}; then {told(UNDONE)}"


def test_plain_values_keep_what_is_no_sentence() -> None:
    values = {"why": LIVE, "each": [1, None, ("a", LIVE)]}
    assert told(values) == {"why": told(LIVE), "each": [1, None, ["a", told(LIVE)]]}
    assert json.loads(json.dumps(values))["why"] == str(LIVE)


def test_errors_keep_it() -> None:
    one = RecoveryRefused(LIVE, advice=[Advice("to go on, add {}", Ask.ACCEPT_LOSS)])
    assert str(one) == f"{LIVE}; to go on, add accept_loss=True"
    assert one.worded(in_options) == f"{told(LIVE)}; to go on, add --accept-loss"
    several = RecoveryRefused.of_several([one.about("/here"), RecoveryRefused("another")])
    assert several.worded(in_options) == f"/here: {one.worded(in_options)}; another"
    assert pickle.loads(pickle.dumps(several)).worded(in_options) == several.worded(in_options)
    assert UsageError(LIVE).worded(in_options) == told(LIVE)
    assert UsageError("plain").worded(in_options) == "plain"


def test_each_thing_to_ask_for_has_an_option_of_its_own() -> None:
    """Two members of one value would be one: the option of the other command would be named."""
    assert len(Ask) == len(Ask.__members__)
    assert (told(Sentence(Ask.BROKER)), told(Sentence(Ask.DEPARTED))) == ("--broker", "--without")
