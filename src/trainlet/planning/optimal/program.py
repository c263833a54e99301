# SPDX-License-Identifier: Apache-2.0
"""An integer program as plain arrays, for whichever engine solves it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field


@dataclass
class Program:
    """Minimise cost . x over whole numbers x, with rows ``low <= coefficients . x <= high``."""

    cost: list[float] = field(default_factory=list)
    high: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=lambda: [0])
    columns: list[int] = field(default_factory=list)
    coefficients: list[float] = field(default_factory=list)
    row_low: list[float] = field(default_factory=list)
    row_high: list[float] = field(default_factory=list)

    def column(self, cost: float = 0.0, high: int = 1) -> int:
        """A new column: a whole number from 0 to ``high``."""
        self.cost.append(cost)
        self.high.append(high)
        return len(self.cost) - 1

    def row(
        self, terms: list[tuple[int, float]], low: float = -math.inf, high: float = math.inf
    ) -> None:
        """A new row; terms name each column once."""
        for column, coefficient in terms:
            self.columns.append(column)
            self.coefficients.append(coefficient)
        self.starts.append(len(self.columns))
        self.row_low.append(low)
        self.row_high.append(high)
