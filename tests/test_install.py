"""What `make demo` installs is what a script imports, wherever it lies."""

import subprocess
import sys
from pathlib import Path


def test_a_clone_beside_the_script_does_not_hide_the_package(tmp_path: Path) -> None:
    # `git clone .../ascendfx`, then Python in the folder above: a folder without `__init__.py` must
    # not become the package.
    (tmp_path / "ascendfx" / "ascendfx").mkdir(parents=True)
    script = tmp_path / "first_try.py"
    script.write_text("import ascendfx\nprint(ascendfx.bundled_model())\n", encoding="utf-8")
    subprocess.run([sys.executable, str(script)], check=True, cwd=tmp_path)
