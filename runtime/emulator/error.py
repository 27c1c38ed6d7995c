"""The error a kernel's fault becomes in Python."""

from dataclasses import dataclass


@dataclass(eq=False)
class EmulatorError(Exception):
    """A kernel broke a rule of the chip, or two of its accesses race.

    Attributes:
        kernel: Name of the kernel.
        block: Index of the block, or of the group in a mixed kernel.
        core: ``AIC``, ``AIV``, ``AIV0`` or ``AIV1``.
        pipe: Pipe of the instruction, ``S`` if the rule concerns no pipe.
        line: Line of the emitted text, from 1; 0 if the fault has no place in it.
        address: Byte in the memory concerned, event id or flag id, as the text says.
        text: What is wrong.
        kind: Kebab-case class of the fault: ``alignment``, ``arguments``, ``barrier``,
            ``bounds``, ``capacity``, ``deadlock``, ``direction``, ``endless``, ``event``, ``flag``,
            ``host-exception``, ``host-memory``, ``host-signal``, ``interrupted``, ``leak``,
            ``poison``, ``queue`` or ``race``.
        excerpt: The line of the emitted text, stripped.
        step: Of a plan: index of the step in its run; None for a kernel launched by itself.
        launch: Of a plan: index of the launch in the step.
        label: Of a plan: label of the launch.
    """

    kernel: str
    block: int
    core: str
    pipe: str
    line: int
    address: int
    text: str
    kind: str = ""
    excerpt: str = ""
    step: int | None = None
    launch: int | None = None
    label: str = ""

    def __str__(self) -> str:
        where = f"kernel `{self.kernel}`, block {self.block}"
        if self.core:
            where += f", {self.core}, pipe {self.pipe}"
        lines = [f"error[emulator-{self.kind}]: {where}: {self.text}"]
        if self.line:
            lines += [
                f"  --> {self.kernel}.cpp:{self.line}",
                "   |",
                f"   | {self.excerpt}",
                "   |",
            ]
        if self.launch is not None:
            lines.append(f"   = launch {self.launch} of step {self.step}: {self.label}")
        return "\n".join(lines)
