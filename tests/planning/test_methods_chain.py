# SPDX-License-Identifier: Apache-2.0
"""How the methods see a step: its halves, its blocks, and what may run again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from training_steps import plain_chain, training_steps

from trainlet.planning import OpSpec, Problem, read_poet_instance
from trainlet.planning.methods.chain import chain_of
from trainlet.planning.methods.phases import forward_length
from trainlet.planning.methods.redo import redo_of
from trainlet.planning.methods.schedule import redo_limits, uses_of

_settings = settings(max_examples=100, deadline=None)


@_settings
@given(training_steps())
def test_blocks_hold_every_operator_once(problem: Problem) -> None:
    blocks = chain_of(problem)
    forward = [place for block in blocks for place in block.forward]
    backward = [place for block in reversed(blocks) for place in block.backward]
    assert forward + backward == list(range(len(problem.ops)))
    assert forward_length(problem, uses_of(problem)) == len(forward)


@_settings
@given(training_steps())
def test_a_block_reads_its_own_values_and_links_alone(problem: Problem) -> None:
    blocks = chain_of(problem)
    links = [block.link for block in blocks]
    for index, block in enumerate(blocks):
        made = {v for place in block.forward for v in problem.ops[place].outputs}
        known = made | {links[index - 1] if index else None}
        others = {v for other in blocks for p in other.forward for v in problem.ops[p].outputs}
        for place in (*block.forward, *block.backward):
            assert set(problem.ops[place].inputs) & others <= known
        for place in block.backward:
            assert set(problem.ops[place].inputs) & made <= {*block.inner, block.link}


def test_a_plain_chain_has_a_block_for_each_layer() -> None:
    blocks = chain_of(plain_chain([10, 20, 30, 40], [1.0] * 4))
    assert [block.link for block in blocks] == ["a0", "a1", "a2", None]
    assert [block.inner for block in blocks] == [(), (), (), ("a3",)]
    # B2 needs a2 beside a1, which comes in, and makes g2 from g3.
    assert blocks[2].backward_bytes == 30 + 30 + 40
    assert blocks[2].waiting_bytes == 40


def test_a_long_chain_is_made_shorter() -> None:
    problem = plain_chain([10] * 200, [1.0] * 200)
    blocks = chain_of(problem)
    assert 48 <= len(blocks) <= 96
    assert sum(len(block.forward) for block in blocks) == 200


def test_what_state_forbids_to_run_again() -> None:
    problem = plain_chain([10] * 3, [1.0] * 3)
    ops = list(problem.ops)
    ops[0] = replace(ops[0], writes=("mean",))
    ops[1] = replace(ops[1], reads=("w",))
    ops.append(OpSpec("update", ("g1",), (), reads=("w",), writes=("w",)))
    stateful = replace(problem, ops=tuple(ops))
    limits = redo_limits(stateful)
    assert limits == [-1, 6, 7, 7, 7, 7, -1]
    redo = redo_of(stateful, uses_of(stateful))
    assert not redo.can_return("a0")  # its operator writes state
    assert redo.can_return("a1")
    assert redo.held("a0") == 6  # the update reads g1, which may be made again and needs it


@pytest.mark.parametrize("name", ["linear", "transformer", "resnet18", "bert", "vgg16"])
def test_the_step_turns_where_poet_says(shared_dir: Path, name: str) -> None:
    path = shared_dir / "poet-instances" / f"{name}.json"
    nodes = json.loads(path.read_text())["nodes"]
    problem = read_poet_instance(path, "m4", None, None)
    forward = sum(not node["backward"] for node in nodes)
    assert forward_length(problem, uses_of(problem)) == forward
