# SPDX-License-Identifier: Apache-2.0
"""The command line: one thin file a verb.

A verb's file holds its options and its help and loads nothing heavy, so that
help answers at once; what it does stands in `work/` and is imported when it runs.
"""
