"""The table of device intrinsics: written by its script, no row without PTX or a reason."""

from .intrinsic_table import PATH, rows, text


def test_every_intrinsic_has_ptx_or_a_reason():
    assert not [name for name, ptx, _, why in rows() if bool(ptx) == bool(why)]


def test_the_page_is_what_the_script_writes():
    assert PATH.read_text(encoding="utf-8") == text()
