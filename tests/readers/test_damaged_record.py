"""The record of what was written for readers may be damaged: one line says what to do."""

import pytest

from tools.readers import place


@pytest.mark.parametrize("text", ["", "{", "[1]", "null"])
def test_a_damaged_record_is_named_with_what_to_do(tmp_path, text):
    place.put(tmp_path, "page.ipynb", b"{}")
    assert place.changed(tmp_path) == []
    (tmp_path / place.RECORD).write_text(text, encoding="utf-8")
    with pytest.raises(SystemExit, match=r"\.built\.json is damaged; remove it"):
        place.changed(tmp_path)
    (tmp_path / place.RECORD).unlink()
    assert place.changed(tmp_path) == ["page.ipynb"]
