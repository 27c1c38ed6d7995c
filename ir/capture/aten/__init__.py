"""The table from ATen overloads to what builds their nodes, one file per family."""

from ascendfx.ir.capture.aten.complex_pairs import COMPLEX
from ascendfx.ir.capture.aten.compound import COMPOUND
from ascendfx.ir.capture.aten.create import CREATE
from ascendfx.ir.capture.aten.einsum import EINSUM
from ascendfx.ir.capture.aten.elementwise import ELEMENTWISE
from ascendfx.ir.capture.aten.index import INDEX
from ascendfx.ir.capture.aten.product import PRODUCT
from ascendfx.ir.capture.aten.reduce import REDUCE
from ascendfx.ir.capture.aten.repeated import REPEATED
from ascendfx.ir.capture.aten.shape import SHAPE
from ascendfx.ir.capture.translation import Handler

__all__ = ["HANDLERS"]

HANDLERS: dict[str, Handler] = {
    **COMPLEX,
    **COMPOUND,
    **CREATE,
    **EINSUM,
    **ELEMENTWISE,
    **INDEX,
    **PRODUCT,
    **REDUCE,
    **REPEATED,
    **SHAPE,
}
