"""`qec models`: the trained networks that ship."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from qecnet.models import DEFAULT, list_models, load
from qecnet.nn import count_parameters


def models() -> None:
    """Name the trained models inside the package; qec classify --model NAME takes one. Example: qec models"""
    table = Table()
    for heading in ("name", "network", "parameters"):
        table.add_column(heading, justify="right" if heading == "parameters" else "left", no_wrap=True)
    table.add_column("classes")
    for name in list_models():
        model = load(name)
        network = "the paper's" if model.network.config.features is None else "with features"
        told = name + (" (default)" if name == DEFAULT else "")
        table.add_row(told, network, f"{count_parameters(model.network):,}", ", ".join(model.classes))
    Console().print(table)
