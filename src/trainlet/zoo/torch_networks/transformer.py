# SPDX-License-Identifier: Apache-2.0
"""Encoders with dropout: BERT-base (Devlin et al., 2018) with a classifier, and a small one."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class EncoderShape:
    """Sizes of an encoder; ``positions`` is the longest sequence."""

    words: int
    positions: int
    width: int
    heads: int
    layers: int
    hidden: int
    dropout: float = 0.1


BERT_BASE = EncoderShape(30522, 512, width=768, heads=12, layers=12, hidden=3072)
SMALL = EncoderShape(64, 16, width=32, heads=4, layers=2, hidden=64)


class _Attention(nn.Module):
    """Self-attention written out: products, softmax and dropout are operators of their own."""

    def __init__(self, shape: EncoderShape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.query = nn.Linear(shape.width, shape.width)
        self.key = nn.Linear(shape.width, shape.width)
        self.value = nn.Linear(shape.width, shape.width)
        self.out = nn.Linear(shape.width, shape.width)
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, words, width) to the same."""
        query, key, value = (self._split(f(x)) for f in (self.query, self.key, self.value))
        scores = query @ key.transpose(-1, -2) * (query.shape[-1] ** -0.5)
        mixed = self.dropout(functional.softmax(scores, -1)) @ value
        result: Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return result

    def _split(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        return x.view(batch, length, self.heads, -1).transpose(1, 2)


class _Layer(nn.Module):
    def __init__(self, shape: EncoderShape) -> None:
        super().__init__()
        self.attention = _Attention(shape)
        self.norm1 = nn.LayerNorm(shape.width, eps=1e-12)
        self.rise = nn.Linear(shape.width, shape.hidden)
        self.fall = nn.Linear(shape.hidden, shape.width)
        self.norm2 = nn.LayerNorm(shape.width, eps=1e-12)
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, words, width) to the same; norms come after the additions."""
        x = self.norm1(x + self.dropout(self.attention(x)))
        y = self.fall(functional.gelu(self.rise(x)))
        result: Tensor = self.norm2(x + self.dropout(y))
        return result


class Encoder(nn.Module):
    """Embeddings, layers, a tanh pooler over the first word, a linear head."""

    def __init__(self, shape: EncoderShape, classes: int) -> None:
        super().__init__()
        self.words = nn.Embedding(shape.words, shape.width)
        self.positions = nn.Embedding(shape.positions, shape.width)
        self.norm = nn.LayerNorm(shape.width, eps=1e-12)
        self.dropout = nn.Dropout(shape.dropout)
        self.layers = nn.ModuleList(_Layer(shape) for _ in range(shape.layers))
        self.pooler = nn.Linear(shape.width, shape.width)
        self.head = nn.Linear(shape.width, classes)

    def forward(self, words: Tensor) -> Tensor:
        """Word numbers (batch, words) to logits (batch, classes)."""
        places = torch.arange(words.shape[1], device=words.device)
        x = self.dropout(self.norm(self.words(words) + self.positions(places)))
        for layer in self.layers:
            x = layer(x)
        logits: Tensor = self.head(self.dropout(torch.tanh(self.pooler(x[:, 0]))))
        return logits


def bert_base(classes: int = 2) -> Encoder:
    """109 million parameters."""
    return Encoder(BERT_BASE, classes)


def small_transformer(classes: int = 4) -> Encoder:
    """Two layers of width 32 with dropout, for tests and examples."""
    return Encoder(SMALL, classes)
