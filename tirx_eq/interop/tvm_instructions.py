"""PTX instructions as calls: TVM 0.27 (and ``apache-tvm-tirx``) have an operator for each syntax line of the PTX ISA.

Such a call is ``tirx.ptx.NAME(operands…, modifiers…, flags)``: the modifiers, in the order in which they are written, and the
flags are strings.  Here all of them are one operator, ``tirx.ptx.instruction(NAME, opcode, operands…, modifiers…, flags)``.
"""

from __future__ import annotations

import sys
from typing import Any

from .. import ir
from . import tvm_objects as obj

INSTRUCTION = "tirx.ptx.instruction"
_PREFIX = "tirx.ptx."
#: Mnemonics of more than one word that names of operators begin with; the others are the name's first word.
_LONG = tuple(sorted((
    "multimem.st.async", "multimem.ld_reduce", "multimem.red.async", "multimem.red", "multimem.st", "multimem.cp", "st.bulk",
    "st.async", "tensormap.replace", "tensormap.cp_fenceproxy", "cvt.pack", "shfl.sync", "vote.sync", "elect.sync",
    "redux.sync", "red.async"), key=len, reverse=True))  # fmt: skip
_SHORT = {"max3": "max", "min3": "min"}
#: Operators of 0.27 that 0.26 has under other names, with the same operands.
RENAMED = {
    "tirx.cuda.elect_sync": "tirx.ptx.elect_sync", "tirx.cuda.mbarrier_wait": "tirx.ptx.mbarrier_try_wait",
    "tirx.cuda.mbarrier_wait_acquire_cluster": "tirx.ptx.mbarrier_try_wait_acquire_cluster",
    "tirx.cuda.mov_sreg": "tirx.ptx.fetch_register",
    **{f"tirx.cuda.tcgen05_encode_{n}": f"tirx.ptx.tcgen05_encode_{n}" for n in (
        "matrix_descriptor", "instr_descriptor", "instr_descriptor_block_scaled")},
}  # fmt: skip
ORIGINAL = {ours: theirs for theirs, ours in RENAMED.items()}


def mnemonic_of(name: str) -> str:
    """The PTX mnemonic of the operator ``tirx.ptx.NAME``."""
    for long in _LONG:
        written = long.replace(".", "_")
        if name == written or name.startswith(written + "_"):
            return long
    first = name.partition("_")[0]
    return _SHORT.get(first, first)


def is_instruction(value: Any, name: str) -> bool:
    """Whether a call of the other system is a PTX instruction in this form.

    TVM 0.26 has operators of some of these names with other operands, so it matters which TVM the call comes from.
    """
    if not name.startswith(_PREFIX) or name == _PREFIX + "addr":
        return False
    if isinstance(value, obj.JsonNode):
        return False  # there, operands and modifiers stand in tuples
    dialect = sys.modules.get("tvm.backend.cuda.ptx")
    return dialect is not None and name.removeprefix(_PREFIX) in dialect.TABLE


def read_instruction(name: str, args: tuple[Any, ...], span: Any) -> ir.Call:
    """Such a call as one of ours."""
    name = name.removeprefix(_PREFIX)
    tokens = [a.value for a in args[:-1] if isinstance(a, ir.StringImm) and a.value]
    opcode = ".".join([mnemonic_of(name), *tokens])
    return ir.Call("void", ir.Op.get(INSTRUCTION), (ir.StringImm(name), ir.StringImm(opcode), *args), span=span)
