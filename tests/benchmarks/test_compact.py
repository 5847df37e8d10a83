"""The published rows of ``simgpu compare``."""

from benchmarks.published.compact import read_record, text
from simgpu.compare.published import FILE


def test_the_file_is_up_to_date():
    remedy = "run python -m benchmarks.published.compact"
    assert FILE.read_text(encoding="utf-8") == text(read_record()), remedy
