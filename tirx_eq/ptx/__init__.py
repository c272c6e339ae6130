"""PTX for NVIDIA Blackwell: what can be written, writing it, and asking the assembler.

``target``      targets and the features that each has
``syntax``      how a row of the instruction table is written, matching of opcodes
``table``       the instruction table (data), lookup by opcode
``operands``    registers, immediates, addresses, vectors, special registers
``check``       operands against the table
``emit``, ``control``, ``builder``   instruction streams, structured control flow, kernels and modules
``idesc``, ``descriptor``, ``swizzle_modes``   instruction and matrix descriptors, and where elements lie
``tensormap``, ``launch``   tensor maps and launch metadata, as JSON for the host
``ptxas``       assembler, disassembler, instruction counts
"""
