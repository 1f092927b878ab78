"""Builds the wheel and the sdist, with the standard library and without network.

    python3 build_package.py dist

The same sources give the same bytes. It is also the build backend of pyproject.toml (PEP 517), so pip install . works.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import re
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any, Dict, List, Optional

HERE = Path(__file__).resolve().parent
_META = {k: re.search(rf'^{k} = "(.*)"$', (HERE / "pyproject.toml").read_text(), re.M).group(1)  # type: ignore
         for k in ("name", "version", "description", "requires-python")}
_STEM = f"{_META['name']}-{_META['version']}"


def _metadata() -> bytes:
    text = (f"Metadata-Version: 2.1\nName: {_META['name']}\nVersion: {_META['version']}\n"
            f"Summary: {_META['description']}\nRequires-Python: {_META['requires-python']}\nLicense: Apache-2.0\n"
            "Description-Content-Type: text/markdown\n\n")
    return (text + (HERE / "README.md").read_text()).encode()


def _package() -> Dict[str, bytes]:
    return {f"troupe/{p.name}": p.read_bytes() for p in sorted((HERE / "troupe").iterdir())
            if p.suffix == ".py" or p.name == "py.typed"}


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: Optional[str] = None) -> str:
    """Write the wheel and return its name."""
    files = _package()
    info = f"{_STEM}.dist-info"
    files[f"{info}/METADATA"] = _metadata()
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: build_package\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record: List[str] = []
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record.append(f"{name},sha256={digest},{len(data)}\n")
    files[f"{info}/RECORD"] = "".join(record + [f"{info}/RECORD,,\n"]).encode()
    name = f"{_STEM}-py3-none-any.whl"
    with zipfile.ZipFile(Path(wheel_directory) / name, "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, data in files.items():
            entry = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            wheel.writestr(entry, data)
    return name


def build_sdist(sdist_directory: str, config_settings: Any = None) -> str:
    """Write the sdist and return its name."""
    files = _package()
    for name in ("pyproject.toml", "README.md", "build_package.py"):
        files[name] = (HERE / name).read_bytes()
    files["PKG-INFO"] = _metadata()
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path, data in sorted(files.items()):
            entry = tarfile.TarInfo(f"{_STEM}/{path}")
            entry.size, entry.mode = len(data), 0o644
            tar.addfile(entry, io.BytesIO(data))
    name = f"{_STEM}.tar.gz"
    with open(Path(sdist_directory) / name, "wb") as out, gzip.GzipFile("", "wb", fileobj=out, mtime=0) as packed:
        packed.write(raw.getvalue())
    return name


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python3 build_package.py DIRECTORY")
    Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    print(build_wheel(sys.argv[1]))
    print(build_sdist(sys.argv[1]))
