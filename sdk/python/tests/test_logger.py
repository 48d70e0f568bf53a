"""Where events go."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from helpers import Make

from belljar import SandboxLogger


def test_events_go_to_pythons_logging(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    sandbox = make(policy={"fuel_budget": 1_000_000})
    with caplog.at_level(logging.INFO, logger="belljar"):
        sandbox.execute("while True: pass")
    records: list[Any] = list(caplog.records)
    assert [record.event["event"] for record in records] == [
        "execution_start",
        "execution_complete",
        "security",
    ]
    assert [record.levelname for record in records] == ["INFO", "INFO", "WARNING"]
    assert json.loads(records[1].getMessage()) == records[1].event


def test_code_and_output_are_logged_when_asked_for(make: Make) -> None:
    events: list[dict[str, Any]] = []
    make(logger=SandboxLogger(events.append, log_code=True, log_output=True)).execute("print(1)")
    assert events[0]["code"] == "print(1)"
    assert events[1]["stdout"] == "1\n"
    quiet: list[dict[str, Any]] = []
    make(logger=SandboxLogger(quiet.append)).execute("print(1)")
    assert "code" not in quiet[0] and "stdout" not in quiet[1]


def test_a_sink_that_raises_is_heard_of(make: Make) -> None:
    def broken(event: dict[str, Any]) -> None:
        raise ValueError("no room")

    with pytest.raises(ValueError, match="no room"):
        make(logger=SandboxLogger(broken)).execute("1")
