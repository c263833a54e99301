# SPDX-License-Identifier: Apache-2.0
"""What the verbs do once their options are read: calls of the API, and tables of its answers."""
