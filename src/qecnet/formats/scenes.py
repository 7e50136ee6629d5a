"""glTF, GLB, 3MF and DAE (Collada), read through trimesh: all meshes of a scene, in its coordinates, as one shape.

Takes the extra `qecnet[formats]`.
"""

import base64
import io
import json
import zipfile
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np

from qecnet.formats._format import Format, has_signature
from qecnet.formats._materials import find_beside
from qecnet.formats._parts import Malformed, Parts, check_unpacked_size
from qecnet.formats.motion import Motion, check_single
from qecnet.geometry import Mesh
from qecnet.schema import needing_extra

_GLB_HEADER = 12  # magic, version and length of the file
_INSIDE = "data:"
_CHUNK_HEADER = 8  # length and kind of a chunk; the first chunk holds JSON


def import_extra(name: str, kind: str) -> Any:
    """Import a library of the extra `qecnet[formats]`, or raise one sentence that says how to install it."""
    with needing_extra(f"is {kind} and needs {name}", "formats"):
        return __import__(name)


def _matches_gltf(data: bytes, text: bytes) -> bool:
    return text.startswith(b"{") and b'"asset"' in data


def _matches_3mf(data: bytes, text: bytes) -> bool:
    return data.startswith(b"PK\x03\x04") and b"[Content_Types].xml" in data


def _matches_dae(data: bytes, text: bytes) -> bool:
    return b"<COLLADA" in text[:4096]


def _parse_glb(data: bytes) -> Parts:
    _check_gltf(_split_glb(data)[0], len(data))
    return _parse_scene(data, "glb")


def _parse_gltf(data: bytes) -> Parts:
    _check_gltf(_parse_json(data), len(data))
    return _parse_scene(data, "gltf")


def _parse_3mf(data: bytes) -> Parts:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            size = sum(info.file_size for info in archive.infolist())
    except Exception as error:  # on damaged archives, the standard library raises ten kinds of errors or more
        raise Malformed(f"is a 3MF that cannot be unpacked ({str(error)[:60]}); the file is damaged") from error
    check_unpacked_size(size)
    import_extra("lxml", "a 3MF")
    return _parse_scene(data, "3mf")


def _parse_dae(data: bytes) -> Parts:
    import_extra("collada", "a DAE")
    return _parse_scene(data, "dae")


def _parse_scene(data: bytes, kind: str) -> Parts:
    trimesh = import_extra("trimesh", f"a {kind.upper()}")
    try:
        scene = trimesh.load_scene(io.BytesIO(data), file_type=kind, process=False)
        shapes = [(np.asarray(g.vertices, np.float64), getattr(g, "faces", None)) for g in scene.dump()]
    except MemoryError:
        raise
    except Exception as error:  # whatever a damaged file does to the library
        raise Malformed(f"cannot be read as {kind.upper()} ({str(error)[:60]}); the file is damaged") from error
    meshes = [(points, np.asarray(faces, np.int64)) for points, faces in shapes if faces is not None and len(faces)]
    if not meshes:
        clouds = [points for points, _ in shapes if len(points)]
        if not clouds:
            raise Malformed("holds no mesh and no points; give a file that holds a shape")
        return Parts(np.concatenate(clouds))
    starts = np.cumsum([0, *(len(points) for points, _ in meshes)])
    faces = [faces + start for (_, faces), start in zip(meshes, starts[:-1], strict=True)]
    return Parts(np.concatenate([points for points, _ in meshes]), np.concatenate(faces))


def _check_gltf(document: dict[str, Any], size: int) -> None:
    """Refuse data in other files, and more elements than the file has room for."""
    try:
        buffers = [str(buffer.get("uri", _INSIDE)) for buffer in document.get("buffers", [])]
        counts = [int(accessor["count"]) for accessor in document.get("accessors", [])]
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise Malformed("has a damaged list of buffers or accessors; save it again") from error
    outside = next((uri for uri in buffers if not uri.startswith(_INSIDE)), None)
    if outside is not None:
        raise Malformed(
            f"keeps its data in another file ({outside[:40]}), which is not a .bin file in its folder or below; "
            "put it there, or save it as one GLB file"
        )
    if max(counts, default=0) > size:
        raise Malformed(f"declares {max(counts):,} elements but has {size:,} bytes; its header is wrong")


def include_buffers(data: bytes, folder: Path) -> bytes:
    """A glTF with the buffers included that it keeps in .bin files in or below its own folder.

    Hidden files, symbolic links and everything elsewhere are left out, and then refused when the glTF is parsed.
    """
    try:
        document = _parse_json(data)
    except Malformed:
        return data
    listed = document.get("buffers")
    outside = {}
    for number, buffer in enumerate(listed if isinstance(listed, list) else ()):
        uri = buffer.get("uri") if isinstance(buffer, dict) else None
        if not isinstance(uri, str) or uri.startswith(_INSIDE):
            continue
        if (name := find_beside(folder, unquote(uri), {".bin"})) is not None:
            outside[number] = folder / name
    check_unpacked_size(sum(path.stat().st_size for path in outside.values()))
    for number, path in outside.items():
        encoded = base64.b64encode(path.read_bytes()).decode()
        document["buffers"][number]["uri"] = f"{_INSIDE}application/octet-stream;base64,{encoded}"
    try:
        return json.dumps(document).encode() if outside else data
    except RecursionError as error:
        raise Malformed("has damaged JSON; it is nested too deeply") from error


def _parse_json(text: bytes) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Malformed("has damaged JSON; the file is truncated") from error
    if not isinstance(document, dict):
        raise Malformed("has JSON that does not describe a scene; the file is damaged")
    return document


def _split_glb(data: bytes) -> tuple[dict[str, Any], bytes]:
    """The JSON of a GLB, and the bytes of its other chunks."""
    start = _GLB_HEADER + _CHUNK_HEADER
    length = int.from_bytes(data[_GLB_HEADER : _GLB_HEADER + 4], "little")
    if data[4:8] != b"\x02\0\0\0" or data[_GLB_HEADER + 4 : start] != b"JSON" or start + length > len(data):
        raise Malformed("is not a complete GLB of version 2; it is truncated or of an older version")
    return _parse_json(data[start : start + length]), data[start + length :]


def _move_glb(data: bytes, motion: Motion) -> bytes:
    document, rest = _split_glb(data)
    text = _move_document(document, motion)
    text += b" " * (-len(text) % 4)
    chunk = len(text).to_bytes(4, "little") + b"JSON" + text + rest
    return data[:8] + (_GLB_HEADER + len(chunk)).to_bytes(4, "little") + chunk


def _move_gltf(data: bytes, motion: Motion) -> bytes:
    return _move_document(_parse_json(data), motion)


def _move_document(document: dict[str, Any], motion: Motion) -> bytes:
    """Put a node with the motion above the root nodes of each scene; all else stays as it was."""
    nodes = document.setdefault("nodes", [])
    for scene in document.get("scenes", []):
        if roots := scene.get("nodes"):
            nodes.append({"name": "motion", "matrix": motion.matrix.T.reshape(-1).tolist(), "children": roots})
            scene["nodes"] = [len(nodes) - 1]
    return json.dumps(document, separators=(",", ":")).encode()


def _encode_mesh(mesh: Mesh, kind: str) -> bytes:
    trimesh = import_extra("trimesh", f"a {kind.upper()}")
    vertices, faces = mesh.vertices.double().numpy(force=True), mesh.faces.numpy(force=True)
    if kind == "glb":
        check_single(vertices, "GLB")
    exported: bytes = trimesh.Trimesh(vertices, faces, process=False).export(file_type=kind)
    return exported


SCENE_FORMATS = (
    Format((".glb",), has_signature(b"glTF"), _parse_glb, _move_glb, partial(_encode_mesh, kind="glb")),
    Format((".gltf",), _matches_gltf, _parse_gltf, _move_gltf),
    Format((".3mf",), _matches_3mf, _parse_3mf, encode_mesh=partial(_encode_mesh, kind="3mf")),
    Format((".dae",), _matches_dae, _parse_dae),
)
