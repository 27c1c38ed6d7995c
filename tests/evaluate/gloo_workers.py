"""Evaluates with 1, 2 and 4 processes that talk by gloo; writes what each says into a folder.

    python gloo_workers.py SET FOLDER

torch is imported once, before the processes part.
"""

import os
import sys
from pathlib import Path

import torch.distributed  # noqa: F401  # see above

from ascendfx.runtime.evaluate.evaluate import WAYS, EvaluationOptions, evaluate
from ascendfx.runtime.evaluate.workers import join_group
from tests.evaluate.models import small_model

SIZES = (1, 2, 4)


def work(rank: int, size: int, file: Path, folder: Path) -> None:
    group = join_group(rank, size, meeting=folder / f"meeting.{size}")
    for way in WAYS:
        report = evaluate(
            small_model(),
            [file],
            truth=small_model(1),
            options=EvaluationOptions(way=way),
            workers=group,
        )
        (folder / f"{way}.{size}.{rank}").write_text(report.text(), encoding="utf-8")
    group.leave()


def main() -> None:
    file, folder = map(Path, sys.argv[1:])
    small_model(), small_model(1)
    for size in SIZES:
        children: list[int] = []
        for rank in range(size):
            child = os.fork()
            if not child:
                code = 1
                try:
                    work(rank, size, file, folder)
                    code = 0
                finally:
                    os._exit(code)
            children.append(child)
        codes = [os.waitpid(child, 0)[1] for child in children]
        if any(codes):
            sys.exit(f"{size} processes ended with {codes}")


if __name__ == "__main__":
    main()
