"""Compile the bundled model, generate a batch of texts, save the package and run it again.

python examples/01_compile_and_generate.py [FOLDER]
"""

import sys
import tempfile
from pathlib import Path

import ascendfx

PROMPTS = ["Elizabeth was ", "The package manager apt", "Article 1\n"]


def progress(what: str, done: int, total: int) -> None:
    """Show how far the compilation is; the first one builds kernels for minutes."""
    print(
        f"\r{what} {done}/{total}", end="\n" if done == total else "", file=sys.stderr, flush=True
    )


def main(folder: Path) -> None:
    """Compile, generate, save, load, generate again."""
    engine = ascendfx.compile(
        ascendfx.bundled_model(), target="ascend910b", dtype="float32", progress=progress
    )
    first = engine.generate(PROMPTS, max_new_tokens=16)
    for prompt, result in zip(PROMPTS, first, strict=True):
        print(f"{prompt!r} -> {result.text!r} ({result.finish_reason})")

    package = folder / "pkg"
    engine.save(package)
    print(f"{package}: {', '.join(sorted(path.name for path in package.iterdir()))}")
    again = ascendfx.load(package).generate(PROMPTS, max_new_tokens=16)
    print("the loaded package says the same:", again == first)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(scratch))
