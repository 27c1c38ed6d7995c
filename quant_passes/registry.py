"""The passes of this folder by name, as `ascendfx opt` knows them."""

from collections.abc import Mapping

from ascendfx.passes.graph_pass import ProgramPass
from ascendfx.quant_passes.insertion.cache_form import LATENTS
from ascendfx.quant_passes.insertion.insert_quantization import InsertQuantization
from ascendfx.quant_passes.insertion.quantize_cache import QuantizeCache
from ascendfx.quant_passes.insertion.site_form import W8A8
from ascendfx.quant_passes.migration.migrate_outliers import MigrateOutliers

QUANT_PASSES: Mapping[str, ProgramPass] = {
    each.name: each
    for each in (InsertQuantization(W8A8), MigrateOutliers(), QuantizeCache(LATENTS))
}
"""With the parameters of the preset ``w8a8kv8``, and factors at all places."""
