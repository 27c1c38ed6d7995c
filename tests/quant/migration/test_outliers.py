"""Row c in small: outliers that change nothing ruin plain W8A8, and migration undoes it.

The bound. With SmoothQuant's exponents of 1/2 the factors of a channel with a gain 100 times as
large are 100 times as large, so that the migrated weights are those of the model without outliers,
smoothed; int8 then errs as it does there. Plain quantization has steps 100 times as coarse in all
other channels. Its divergence, of second order in the errors, is larger by far more than ten times,
although inputs of some projections (values, gated activations) have no outliers.
"""

import numpy as np

from ascendfx.ir.tensor_source import ArraySource
from ascendfx.quant_passes.migration.choices import Choices
from ascendfx.quant_passes.migration.find_transforms import Search, find_transforms
from ascendfx.quant_passes.migration.migrate_outliers import MigrateOutliers
from ascendfx.quant_passes.migration.transform_set import read_metadata
from ascendfx.quant_passes.transforms.smooth_quant import SmoothQuant
from tests.benchmarks.outlier_migration import (
    figures,
    log_softmax,
    numbers,
    quantized_logits,
    statistics,
)
from tests.benchmarks.parts.outliers import materialised, with_outliers
from tests.quant.insertion.bundled_program import raised_program, texts


def test_migration_saves_a_model_with_outliers_and_is_found_again_by_its_metadata() -> None:
    program, original, ids = raised_program(), numbers(), texts(1, 10)[::3]
    injected = with_outliers(program, original)
    true = log_softmax(quantized_logits(program, original, ids, 0))
    same = log_softmax(quantized_logits(program, injected, ids, 0))
    assert figures(same, true, ids).divergence < 1e-6
    plain = figures(log_softmax(quantized_logits(program, injected, ids, 8)), true, ids)

    choices = Choices(stream="factors", latent="factors")
    seen = statistics(program, injected, texts(2, 10)[1::2])
    search = Search(SmoothQuant(0.5))
    found = find_transforms(program, choices, ArraySource(injected), seen, search)
    new, made = materialised(
        MigrateOutliers(choices).run(program).program, {**injected, **found.tensors}
    )
    ours = figures(log_softmax(quantized_logits(new, made, ids, 8)), true, ids)
    assert ours.divergence < plain.divergence / 10

    known = read_metadata(found.metadata())
    assert known.choices == choices
    again = find_transforms(
        program, choices, ArraySource(injected), seen, Search(), before=known.how
    )
    assert again.tensors.keys() == found.tensors.keys()
    assert all(np.array_equal(again.tensors[name], found.tensors[name]) for name in found.tensors)
