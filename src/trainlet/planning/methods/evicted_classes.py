# SPDX-License-Identifier: Apache-2.0
"""Classes of evicted values that touch, and the cost of each: DTR's h^eq (see ``dtr``)."""

from __future__ import annotations

from trainlet.planning.methods.schedule import price_of, uses_of
from trainlet.planning.problem import Problem


class EvictedClasses:
    """A union-find over evicted values; two touch where an operator makes one from the other."""

    def __init__(self, problem: Problem) -> None:
        uses, price = uses_of(problem), price_of(problem)
        self._cost = {
            value: price.compute(made) if made >= 0 else 0.0 for value, made in uses.made.items()
        }
        self._touching: dict[str, list[str]] = {value: [] for value in uses.made}
        for op in problem.ops:
            for source in dict.fromkeys(op.inputs):
                for output in op.outputs:
                    self._touching[source].append(output)
                    self._touching[output].append(source)
        self._class: dict[str, int] = {}  # evicted value -> its node in the forest
        self._parent: list[int] = []
        self._total: list[float] = []

    def evict(self, value: str) -> None:
        """The value goes: it joins the classes of its evicted neighbours."""
        node = len(self._parent)
        self._parent.append(node)
        self._total.append(self._cost[value])
        for other in self._touching[value]:
            if other in self._class:
                self._union(node, self._class[other])
        self._class[value] = node

    def bring_back(self, value: str) -> None:
        """The value is there again: its class loses its cost (and is not split)."""
        node = self._class.pop(value, None)
        if node is not None:
            root = self._root(node)
            self._total[root] = max(0.0, self._total[root] - self._cost[value])

    def cost_to_return(self, value: str) -> float:
        """Cost of the value and of the classes that it touches."""
        roots = {self._root(self._class[o]) for o in self._touching[value] if o in self._class}
        return self._cost[value] + sum(self._total[root] for root in sorted(roots))

    def _root(self, node: int) -> int:
        while self._parent[node] != node:
            self._parent[node] = self._parent[self._parent[node]]
            node = self._parent[node]
        return node

    def _union(self, one: int, other: int) -> None:
        one, other = self._root(one), self._root(other)
        if one != other:
            self._parent[other] = one
            self._total[one] += self._total[other]
