"""PTX of the device intrinsics (``tirx.ptx.*``, ``tirx.cuda.*``), as templates, one file for each family."""
