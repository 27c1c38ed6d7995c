"""Read prompts in one process and go on in another.

python examples/06_prefill_and_decode.py [FOLDER]
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import ascendfx
from ascendfx import Request, Sampling, TransferRecord

REQUESTS = [
    Request(prompt="Elizabeth was ", max_new_tokens=16),
    Request(
        prompt="Article 1\n",
        max_new_tokens=16,
        sampling=Sampling(temperature=0.7, seed=3, repetition_penalty=1.1),
    ),
]


def prefill(folder: Path) -> None:
    """The prefill process: prompts in, one file for each out."""
    engine = ascendfx.load(folder / "prefill")
    for number, request in enumerate(REQUESTS):
        record = engine.prefill(request)
        record.save(folder / f"{number}.safetensors")
        print(
            f"{request.prompt!r}: {record.length} tokens, {record.bytes:,} bytes, "
            f"{record.bytes_per_token:,} per token, {record.draft_bytes_per_token} of drafts"
        )


def tell(what: str) -> None:
    """Say what is going on; what is printed on standard output is the result."""
    print(what, file=sys.stderr, flush=True)


def main(folder: Path) -> None:
    """Compile once, save the halves, read prompts in another process, go on in this one."""
    tell("compiling the bundled model and building its kernels: minutes, the first time")
    whole = ascendfx.compile(ascendfx.bundled_model(), dtype="float32", draft_tokens=1)
    for plan in ("prefill", "decode"):
        whole.save(folder / plan, plans=(plan,))
    tell("reading the prompts in another process")
    command = [sys.executable, __file__, str(folder), "prefill"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603
    print(done.stdout, end="")

    tell("going on in this one")
    engine = ascendfx.load(folder / "decode")
    records = [TransferRecord.load(folder / f"{i}.safetensors") for i in range(len(REQUESTS))]
    tokens = {engine.start_from(record): list[int]() for record in records}
    while engine.busy:
        engine.step(8)
        for update in engine.poll():
            tokens[update.request] += update.token_ids
    same = []
    for request, new in zip(REQUESTS, tokens.values(), strict=True):
        (once,) = whole.generate([request.prompt], max_new_tokens=16, sampling=request.sampling)
        print(f"{request.prompt!r} -> {once.text!r}")
        same.append(list(once.token_ids) == new)
    print("one engine says the same:", all(same))


if __name__ == "__main__":
    if sys.argv[2:] == ["prefill"]:
        prefill(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as scratch:
            main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(scratch))
