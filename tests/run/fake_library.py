# SPDX-License-Identifier: Apache-2.0
"""A library written by hand with the interface of an emitted one: a small int8 and float layer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from trainlet.run import EmulatedDevice, Firmware

# What the fixtures `build` and `boot` give.
Build = Callable[..., Firmware]
Boot = Callable[..., EmulatedDevice]

INPUT_BYTES = 48
CLASSES = 4
WEIGHTS = INPUT_BYTES * CLASSES
TRAINABLE_BYTES = WEIGHTS + 4 * CLASSES

_HEADER = """\
#ifndef @P@_H
#define @P@_H
#include <stdint.h>
enum @p@_status { @P@_OK = 0, @P@_ERROR_LABEL = 1, @P@_ERROR_NOT_INITIALIZED = 2 };
#define @P@_INPUT_BYTES 48
#define @P@_CLASSES 4u
#define @P@_TRAINABLE_BYTES (208) /* int8 weights, then float biases */
void @p@_init(uint32_t seed);
int8_t *@p@_input(void);
int @p@_predict(void);
const float *@p@_logits(void);
int @p@_train_step(uint32_t label);
float @p@_loss(void);
void @p@_set_learning_rate(float backbone, float head);
uint8_t *@p@_trainables(void);
#endif
"""

_SOURCE = """\
#include "@p@.h"
#include "@p@_internal.h"

static struct {
    struct { int8_t weight[4][48]; float bias[4]; } learn;
    int8_t input[48];
    float logits[4], loss, backbone, head;
    uint32_t random, ready;
} context;

float @p@_scale = 0.0078125f * 1.37f; /* a .data object */

static uint32_t next_random(void) {
    return context.random = context.random * 1664525u + 1013904223u;
}

void @p@_init(uint32_t seed) {
    context.random = seed;
    for (uint32_t o = 0; o < 4; o++) {
        for (uint32_t i = 0; i < 48; i++) {
            context.learn.weight[o][i] = @p@_weights[o][i];
        }
        context.learn.bias[o] = 0.0f;
    }
    context.backbone = 0.5f;
    context.head = 0.25f;
    context.ready = 1;
}

int8_t *@p@_input(void) { return context.input; }
const float *@p@_logits(void) { return context.logits; }
float @p@_loss(void) { return context.loss; }
uint8_t *@p@_trainables(void) { return (uint8_t *)&context.learn; }

void @p@_set_learning_rate(float backbone, float head) {
    context.backbone = backbone;
    context.head = head;
}

int @p@_predict(void) {
    if (!context.ready) {
        return @P@_ERROR_NOT_INITIALIZED;
    }
    @p@_extra();
    for (uint32_t o = 0; o < 4; o++) {
        int32_t sum = 0;
        for (uint32_t i = 0; i < 48; i++) {
            sum += context.learn.weight[o][i] * (context.input[i] + 3);
        }
        context.logits[o] = (float)sum * @p@_scale / 3.0f + context.learn.bias[o];
    }
    return @P@_OK;
}

int @p@_train_step(uint32_t label) {
    if (label >= 4) {
        return @P@_ERROR_LABEL;
    }
    int status = @p@_predict();
    if (status != @P@_OK) {
        return status;
    }
    float loss = 0.0f;
    for (uint32_t o = 0; o < 4; o++) {
        float error = context.logits[o] - (o == label ? 1.0f : 0.0f);
        loss += error * error / 7.0f;
        context.learn.bias[o] -= context.head * error;
        for (uint32_t i = 0; i < 48; i++) {
            float u = (float)(next_random() >> 8) * 0x1p-24f;
            float delta = -(error * (float)context.input[i]) * context.backbone * 0.01f + u;
            delta = delta > 100.0f ? 100.0f : delta < -100.0f ? -100.0f : delta;
            int32_t whole = (int32_t)delta;
            whole = (float)whole > delta ? whole - 1 : whole;
            int32_t next = context.learn.weight[o][i] + whole;
            context.learn.weight[o][i] = (int8_t)(next > 127 ? 127 : next < -127 ? -127 : next);
        }
    }
    context.loss = loss;
    return @P@_OK;
}
"""

_INTERNAL = """\
#include <stdint.h>
extern const int8_t @p@_weights[4][48];
extern float @p@_scale;
void @p@_extra(void);
"""


def write_library(folder: Path, prefix: str = "fake", extra: str = "") -> Path:
    """Write the library; `extra` is the body of a function that `predict` calls first."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = ",\n".join(
        "    {" + ", ".join(str((37 * (48 * o + i) + 11) % 61 - 30) for i in range(48)) + "}"
        for o in range(4)
    )
    files = {
        f"{prefix}.h": _HEADER,
        f"{prefix}.c": _SOURCE,
        f"{prefix}_internal.h": _INTERNAL,
        f"{prefix}_params.c": '#include "@p@_internal.h"\n'
        f"const int8_t @p@_weights[4][48] = {{\n{rows}\n}};\n",
        f"{prefix}_extra.c": f'#include "@p@_internal.h"\n'
        f"void @p@_extra(void) {{\n    {extra}\n}}\n",
    }
    for name, text in files.items():
        (folder / name).write_text(text.replace("@p@", prefix).replace("@P@", prefix.upper()))
    return folder
