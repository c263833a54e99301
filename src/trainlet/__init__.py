# SPDX-License-Identifier: Apache-2.0
"""Trainlet: a network, a device and a budget go in; one training step that fits comes out."""
