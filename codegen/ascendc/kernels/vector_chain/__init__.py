"""Vector chains: any group of token-wise operations and row reductions as one kernel."""

from ascendfx.codegen.ascendc.kernels.vector_chain.emit import emit_vector_chain
from ascendfx.codegen.ascendc.kernels.vector_chain.lower import can_join_chain
from ascendfx.codegen.ascendc.kernels.vector_chain.plan import VectorChainPlan, plan_vector_chain

__all__ = ["VectorChainPlan", "can_join_chain", "emit_vector_chain", "plan_vector_chain"]
