"""`qec models`: the trained models in the package."""

from textwrap import fill

from qecnet import DEFAULT_MODEL
from qecnet.schema import printable


def models() -> None:
    """List the trained models in the package.

    Example: qec models

    Prints the network, the number of parameters and the classes of each. --model takes any of these names.
    """
    from qecnet.models import list_models, load
    from qecnet.nn import count_parameters

    for name in list_models():
        model = load(name)
        default = " (default)" if name == DEFAULT_MODEL else ""
        print(f"{name}{default}: {model.network.title}, {count_parameters(model.network):,} parameters")
        known = ", ".join(model.classes) if len(model.classes) > 1 else "no classes: which way is up, for any shape"
        print(fill(printable(known), 100, initial_indent="  ", subsequent_indent="  "))
