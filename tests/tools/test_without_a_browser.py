"""Where no browser is, CI fails and says what to install; elsewhere tests of pages are skipped."""

import os
import re
import subprocess
import sys

import pytest
from support.paths import ROOT

TESTS = [  # one of each module that needs a browser
    "book/test_allreduce_steps.py::test_arrow_keys_go_on_and_back",
    "book/test_calculators.py::test_a_gpu_brings_its_usual_link",
    "book/test_front_page.py::test_a_reader_chooses_a_run",
    "book/test_guesses.py::test_a_guess_is_made_by_keyboard",
    "book/test_pages.py::test_every_page_is_quiet_as_a_file",
    "book/test_search_and_switches.py::test_a_page_prints_without_its_code",
    "book/test_strips.py::test_the_browser_draws_every_step_of_the_film[mesh]",
    r"editions/test_edition_search.py::test_a_browser_quotes_what_was_searched_for"
    r"[tr-\xc7ekirdek-\xc7ekirde\u011fi]",
    "editions/test_edition_site.py::test_the_menu_keeps_the_place_on_a_page",
    "editions/test_editions_of_the_book.py::test_a_page_is_for_everybody[ko]",
    "timeline/test_widget.py::test_summary_names_the_busiest_lanes",
    "live/test_live.py::test_kernels_work_in_the_readers_folder",
    "tools/test_pdf.py::test_what_is_folded_is_open",
    "readers/test_readers_lab.py::test_pictures_are_found_beside_or_inside_the_notebook",
    "tools/test_terms.py::test_a_search_finds_the_entry_first_by_any_of_its_names",
]


def run(tests, folder, **variables):
    """Run tests where no program is found; return the exit status and what was said."""
    known = {name: value for name, value in os.environ.items() if name != "CI"}
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, *(str(ROOT / "tests" / test) for test in tests)],
        cwd=ROOT,
        env={**known, "PATH": str(folder), **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


@pytest.mark.exhaustive
def test_ci_fails_without_a_browser(tmp_path):
    status, said = run(TESTS, tmp_path, CI="true")
    assert status == 1, said
    assert re.search(rf"\b{len(TESTS)} errors\b", said), said
    assert said.count("CI has to try the pages") >= len(TESTS)
    assert "apt-get install chromium" in said


@pytest.mark.exhaustive
def test_elsewhere_tests_of_pages_are_skipped_and_say_why(tmp_path):
    status, said = run(TESTS[-1:], tmp_path)
    assert status == 0, said
    assert re.search(r"\b1 skipped\b", said), said
    assert "apt-get install chromium" in said


def test_each_module_that_needs_a_browser_is_among_them():
    modules = {
        str(path.relative_to(ROOT / "tests"))
        for path in (ROOT / "tests").rglob("test_*.py")
        if re.search(r"^def \w+\(.*\b(tab|chromium)\b", path.read_text(encoding="utf-8"), re.M)
    }
    assert {test.partition("::")[0] for test in TESTS} == modules
