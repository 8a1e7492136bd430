"""What runs on executors needs Python and this package, and nothing from site-packages."""

from __future__ import annotations

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]
IMPORT_ALL = """
import importlib, pathlib, sys
root = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(root))
for room in ("api", "plugins"):
    for file in sorted((root / "connect_runtime" / room).rglob("*.py")):
        name = ".".join(file.relative_to(root).with_suffix("").parts)
        importlib.import_module(name.removesuffix(".__init__"))
loaded = {name for name in sys.modules if name.startswith("connect_runtime.")}
print(*sorted({name.split(".")[1] for name in loaded}))
"""


def test_plugins_import_without_any_package():
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", IMPORT_ALL, str(ROOT)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["api", "base", "plugins"]
