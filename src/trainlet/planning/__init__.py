# SPDX-License-Identifier: Apache-2.0
"""Plans: when every operator runs, when every value leaves, where every byte lies, and the proof.

``problem`` says what is to be planned; a method in ``methods`` writes the instruction list;
``lifetimes`` and ``addresses`` place it; ``checker`` replays the whole and trusts none of them.
"""

from trainlet.planning.checker import CheckReport, PlanRejected, check
from trainlet.planning.fixed import plan_at
from trainlet.planning.instructions import Compute, Free, Instruction, PageIn, PageOut
from trainlet.planning.plan import Plan
from trainlet.planning.planner import make_plan
from trainlet.planning.poet_instances import read_poet_instance
from trainlet.planning.problem import OpSpec, Overwrite, PagingCost, Problem, ValueSpec
from trainlet.planning.problem_json import problem_from_json, problem_to_json
from trainlet.planning.timeline import Timeline, timeline_of

__all__ = [
    "CheckReport",
    "Compute",
    "Free",
    "Instruction",
    "OpSpec",
    "Overwrite",
    "PageIn",
    "PageOut",
    "PagingCost",
    "Plan",
    "PlanRejected",
    "Problem",
    "Timeline",
    "ValueSpec",
    "check",
    "make_plan",
    "plan_at",
    "problem_from_json",
    "problem_to_json",
    "read_poet_instance",
    "timeline_of",
]
