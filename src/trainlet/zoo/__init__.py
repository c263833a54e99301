# SPDX-License-Identifier: Apache-2.0
"""Networks that the project defines itself."""

from trainlet.zoo.build import build, near_names, zoo_names

__all__ = ["build", "near_names", "zoo_names"]
