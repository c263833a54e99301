# SPDX-License-Identifier: Apache-2.0
"""C kernels, one function a file; emit/kernel_sources.py copies them."""
