"""The small book in all languages, built once for the tests of this folder."""

import pytest
from support.samples import small_edition
from support.samples.small_edition import BASE, EVERY

COUNTS = {"chapters/one": [7, 2, 1], "chapters/two": [5, 0, 0], "intro": [3, 0, 0]}


@pytest.fixture(scope="session")
def website(tmp_path_factory):
    """Build the small book in all languages, below the English one; only two know an address."""
    place = tmp_path_factory.mktemp("editions")
    for code in EVERY:
        (place / code).mkdir()
        base = BASE if code in ("en", "ko") else ""
        root = small_edition.write(place / code, code, COUNTS, base)
        target = place / "site" / ("" if code == "en" else code)
        small_edition.build(root, target, "tr,ko,zh")
    return place / "site"
