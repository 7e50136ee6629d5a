"""`qec view`: a page in the browser where a shape is rotated and the network's prediction follows.

A page sends requests (`request.py`), its session (`session.py`) answers each with a response. The process that reads
uploads imports one module of this package, so the server is imported only where it is used.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qecnet.viewer.serve import serve_viewer

__all__ = ["serve_viewer"]


def __getattr__(name: str) -> Any:
    if name == "serve_viewer":
        from qecnet.viewer.serve import serve_viewer

        return serve_viewer
    raise AttributeError(f"module 'qecnet.viewer' has no attribute {name!r}")
