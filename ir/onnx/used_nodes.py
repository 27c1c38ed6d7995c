"""Dead nodes of an ONNX body: constants that were made and then not needed."""

from collections.abc import Iterable, Iterator, Sequence

from onnx import NodeProto


def used_nodes(nodes: Sequence[NodeProto], outputs: Iterable[str]) -> list[NodeProto]:
    """Return the nodes that ``outputs`` depend on, in order."""
    read = set(outputs)
    kept: list[NodeProto] = []
    for node in reversed(nodes):
        if not read.isdisjoint(node.output):
            kept.append(node)
            read.update(_reads(node))
    return kept[::-1]


def _reads(node: NodeProto) -> Iterator[str]:
    """Yield what a node reads, inside its subgraphs too."""
    yield from node.input
    for attribute in node.attribute:
        for inner in attribute.g.node:
            yield from _reads(inner)
