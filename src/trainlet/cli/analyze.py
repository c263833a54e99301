# SPDX-License-Identifier: Apache-2.0
"""`trainlet analyze`: does a step fit, and what does it cost?"""

from __future__ import annotations

from typing import Annotated

import typer

from trainlet.cli.options import (
    Classes,
    DeviceName,
    Json,
    Model,
    ReportPath,
    Requantize,
    RequantizeMode,
    Resolution,
    SchemeName,
    StackBytes,
)


def analyze(
    model: Model,
    classes: Classes = None,
    resolution: Resolution = None,
    scheme: SchemeName = "head-only",
    device: DeviceName = "stm32f746",
    stack: StackBytes = None,
    requantize: RequantizeMode = Requantize.FAST,
    link: Annotated[
        bool, typer.Option(help="Link the firmware, so that code counts and figures are exact.")
    ] = True,
    report: ReportPath = None,
    as_json: Json = False,
) -> None:
    """Say whether a network's training step fits a device, and what it costs.

    Exit status 0: it fits; 2: it does not, or the input is wrong.

    Example: [bold]trainlet analyze mcunet-5fps.pkl --classes 10 --scheme mcunet-49kb[/bold]
    """
    from trainlet.cli.work.analysis import (
        analyze_step,
        print_analysis,
        require_fitting,
        write_analysis,
    )
    from trainlet.cli.work.request import Request

    request = Request.of(model, classes, resolution, scheme, device, stack, requantize.value)
    found = analyze_step(request, link=link, quiet=as_json)
    if report is not None:
        write_analysis(found, report)
    print_analysis(found, as_json)
    require_fitting(found)
