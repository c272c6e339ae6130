"""The tensor core and tensor memory (PTX ISA 9.7.16)."""
