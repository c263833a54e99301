# SPDX-License-Identifier: Apache-2.0
"""The package's version, from its metadata."""

from importlib.metadata import version

VERSION = version("trainlet")
