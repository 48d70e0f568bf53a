"""The policy's model is the one of the engine."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from helpers import REPOSITORY
from pydantic import BaseModel

from belljar import ExecutionPolicy, PolicyValidationError, SandboxResult, Status, create_sandbox


def schema(name: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((REPOSITORY / f"docs/schema/{name}.json").read_text())
    return read


def test_fields_defaults_and_bounds_are_those_of_the_engine() -> None:
    theirs, ours = schema("policy")["properties"], ExecutionPolicy.model_json_schema()["properties"]
    assert set(ours) == set(theirs)
    defaults = ExecutionPolicy().model_dump(mode="json")
    for name, field in theirs.items():
        assert defaults[name] == field["default"], name
        assert ours[name].get("maximum") == field.get("maximum"), name
        least = ours[name].get("minimum", ours[name].get("exclusiveMinimum", -1) + 1 or None)
        assert least == field.get("minimum"), name


def test_the_result_has_the_fields_of_the_engine() -> None:
    theirs = schema("result")
    ours = SandboxResult.model_json_schema()
    assert set(ours["properties"]) == set(theirs["properties"])
    for name in ("CellValue", "GuestError", "Meta", "ResourceLimits", "ToolCall", "ToolUsage"):
        fields = set(theirs["$defs"][name]["properties"])
        assert set(ours["$defs"][name]["properties"]) == fields, name
    assert [status.value for status in Status] == [
        kind["const"] for kind in theirs["$defs"]["Status"]["oneOf"]
    ]


def test_only_what_was_set_is_told() -> None:
    assert ExecutionPolicy().explicit() == {}
    assert ExecutionPolicy(timeout_seconds=5).explicit() == {"timeout_seconds": 5.0}
    agent = ExecutionPolicy.agent(memory_bytes=64_000_000)
    assert agent.explicit() == {"memory_bytes": 64_000_000}
    assert (agent.preset, agent.fuel_budget) == ("agent", 200_000_000_000)
    assert ExecutionPolicy.agent(fuel_budget=5).fuel_budget == 5


def test_the_preset_survives_merging_and_copying() -> None:
    agent = ExecutionPolicy.agent().merge(timeout_seconds=5)
    for policy in (agent, pickle.loads(pickle.dumps(agent)), agent.model_copy()):
        assert (policy.preset, policy.fuel_budget) == ("agent", 200_000_000_000)
        assert policy.explicit() == {"timeout_seconds": 5.0}
    with create_sandbox(policy=agent) as sandbox:
        limits = sandbox.execute("1").meta.resource_limits
    assert (limits.fuel_budget, limits.timeout_seconds) == (200_000_000_000, 5)


def test_policies_do_not_change_and_can_be_compared() -> None:
    policy = ExecutionPolicy(fuel_budget=5)
    with pytest.raises(Exception, match="frozen"):
        policy.fuel_budget = 6
    assert ExecutionPolicy.model_validate_json(policy.model_dump_json()) == policy


def test_a_wrong_policy_in_another_model_is_still_a_policy_error() -> None:
    class Settings(BaseModel):
        policy: ExecutionPolicy

    with pytest.raises(PolicyValidationError):
        Settings.model_validate({"policy": {"fuel_budget": -1}})
