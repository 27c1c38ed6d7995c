"""Our run of a model directory beside eager PyTorch."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_source import TensorsByKey
from ascendfx.passes.pipeline import run_pipeline
from ascendfx.runtime.checkpoint.capture_model import capture_model
from ascendfx.runtime.checkpoint.traced_directory import trace_folder_of
from ascendfx.runtime.dumps.compare_tensors import Comparison, compare_modules
from ascendfx.runtime.dumps.tensor_dump import dump_tensors
from ascendfx.runtime.presets import serving_passes
from ascendfx.runtime.progress import Progress, silent


def compare_with_eager(
    directory: Path, tokens: Sequence[int], *, progress: Progress = silent
) -> Comparison:
    """Compare the serving form with transformers in float64, module by module.

    Args:
        directory: In the Hugging Face layout.
        tokens: One text.
        progress: Told about each stage.

    Raises:
        GraphError: The model cannot be captured, or transformers cannot load it.
    """
    progress("compare with eager", 0, 3)
    captured = capture_model(directory, trace_folder=trace_folder_of(None))
    serving, _ = run_pipeline(captured.program, serving_passes())
    progress("compare with eager", 1, 3)
    ids = np.array([list(tokens)], np.int64)
    run = dump_tensors(serving, TensorsByKey(captured.source), ids, "serving form")
    progress("compare with eager", 2, 3)
    modules = _eager(directory, ids)
    progress("compare with eager", 3, 3)
    return compare_modules(run, modules)


def _eager(directory: Path, ids: np.ndarray) -> dict[str, np.ndarray]:
    try:
        from transformers import AutoModelForCausalLM  # noqa: PLC0415  # an extra
        from transformers.utils import logging  # noqa: PLC0415
    except ImportError as error:
        raise GraphError(
            "missing-package",
            "eager PyTorch needs torch and transformers",
            hint="pip install 'ascendfx[capture]'",
        ) from error
    from ascendfx.ir.capture.eager_modules import module_outputs  # noqa: PLC0415  # imports torch

    spoken = logging.get_verbosity()
    logging.set_verbosity_error()  # it lists the tensors of draft layers
    logging.disable_progress_bar()
    try:
        model = AutoModelForCausalLM.from_pretrained(directory, local_files_only=True)
    except Exception as error:  # transformers raises what it likes
        first = str(error).strip().split("\n", 1)[0]
        raise GraphError(
            "unknown-model",
            f"transformers cannot load {directory}: {first}",
            hint="give the directory that was compiled; this transformers must know its model type",
        ) from error
    finally:
        logging.set_verbosity(spoken)
        logging.enable_progress_bar()
    return module_outputs(model.eval(), ids)
