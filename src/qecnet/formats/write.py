"""Write shapes to files, for other programs and for `read`."""

import os
from pathlib import Path

from qecnet.files import write_whole
from qecnet.formats.read import BY_SUFFIX
from qecnet.geometry import Mesh, PointCloud

OUTPUT_SUFFIXES = tuple(sorted(s for s, form in BY_SUFFIX.items() if form.encode_mesh or form.encode_cloud))
"""The extensions that `write` knows, lower case, with the dot."""


def write(path: str | os.PathLike[str], shape: Mesh | PointCloud) -> None:
    """Write a shape in the format of the path's extension, whole or not at all.

    Points are written as they are, in their own dtype; text formats get all digits. Call `restore` first if the points
    should be in their original coordinates.

    Args:
        path: the file, with the extension of a format that can hold the shape.
        shape: a mesh or a cloud.

    Raises:
        ValueError: if the format cannot hold this kind of shape, or only with less detail than it has.
        OSError: if the file cannot be written.
    """
    path = Path(path)
    is_mesh = isinstance(shape, Mesh)
    encoders = {s: form.encode_mesh if is_mesh else form.encode_cloud for s, form in BY_SUFFIX.items()}
    encode = encoders.get(path.suffix.lower())
    if encode is None:
        noun = "mesh" if is_mesh else "cloud"
        known = ", ".join(sorted(s for s, one in encoders.items() if one))
        raise ValueError(f"{path}: a {noun} cannot be written as {path.suffix or 'this'}; use one of {known}")
    try:
        data = encode(shape)  # type: ignore[arg-type]
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    write_whole(path, data)
