"""Command line of the editions: ``python -m tools.editions todo ko chapters/devices``."""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tools.editions import copy, pages, reviews, same, work
from tools.editions.languages import BUILT, LANGUAGES

ROOT = Path(__file__).parents[2]
ALL = "all"
BUILD = "tools/build_book.py"


def parser():
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(prog="python -m tools.editions", description=__doc__)
    commands = made.add_subparsers(dest="command", required=True)

    def command(name, explanation, *, page=False, many=True):
        added = commands.add_parser(name, help=explanation, description=explanation)
        choices = [*LANGUAGES, ALL] if many else [*LANGUAGES]
        added.add_argument("language", choices=choices)
        if page:
            added.add_argument("page", help="as in _toc.yml, or 'words'")
        return added

    command("todo", "print what is left to translate on a page", page=True, many=False)
    command("add", "take a filled-in file into the edition", page=True, many=False).add_argument(
        "file", type=Path
    )
    command("side", "print a page in both languages, as HTML", page=True, many=False)
    command("back", "print the blocks to translate back", page=True, many=False)
    command("beside", "print English, translation and a translation back", page=True).add_argument(
        "file", type=Path
    )
    command("status", "print how much of each page is translated")
    command("check", "print what is wrong with the form of the translations").add_argument(
        "pages", nargs="*", help="default: all"
    )
    written = command("write", "write the copy of the repository in that language")
    run = command("run", "write the copy, and run a program of the repository in it")
    for added in (written, run):
        added.add_argument(
            "--unreviewed", action="store_true", help="pages that no review has passed as well"
        )
    run.add_argument("program", nargs=argparse.REMAINDER, help="what stands behind `python`")
    return made


def chosen(language):
    """Return the languages that an argument means."""
    return [*LANGUAGES] if language == ALL else [language]


def page_named(name):
    """Return the name of a page, or end with the names there are."""
    if name not in (names := pages.names()):
        sys.exit(f"editions: no page {name}; there are: {', '.join(names)}")
    return name


def write(language, unreviewed=False):
    """Write the copy of a language, and say how much of it is translated; return the status."""
    counts = copy.write(language, unreviewed=unreviewed)
    wrong = list(same.compare(ROOT, copy.place_of(language)))
    print(*wrong, sep="\n", end="\n" * bool(wrong))
    done = sum(count[0] for count in counts.values())
    left = sum(count[1] for count in counts.values())
    print(f"{language}: {done} blocks translated, {left} in English", flush=True)
    return int(bool(wrong))


def run(languages, program, unreviewed=False):
    """Run a program in the copy of each language; return the exit status.

    Of several languages, the English book comes first, and each book built leads to the others.
    """
    together = {BUILT: ",".join(languages)} if len(languages) > 1 else {}
    if together and (status := start(ROOT, program, together)):
        return status
    for language in languages:
        place = copy.place_of(language)
        if status := write(language, unreviewed) or start(place, program, together):
            return status
        if program[:1] == [BUILD]:
            site = ROOT / "_build" / "html" / language
            shutil.rmtree(site, ignore_errors=True)
            shutil.copytree(place / "_build" / "html", site)
            print(f"editions: {site / 'index.html'}", flush=True)
    return 0


def start(place, program, variables):
    """Run a program of a copy of the repository in it; return its exit status."""
    paths = [str(place), os.environ.get("PYTHONPATH")]
    variables = variables | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    command = [sys.executable, *program]
    return subprocess.run(command, cwd=place, env=os.environ | variables, check=False).returncode


def check(language, names):
    """Print what is wrong with an edition; return the number of errors."""
    from tools.editions import checks

    found = [(f"{language}/{name}", p) for name in names for p in checks.of_page(language, name)]
    found += [(language, problem) for problem in checks.of_headings(language)]
    for place, problem in found:
        print(f"{place}: {problem}")
    return sum(problem.kind == "error" for _, problem in found)


def main(arguments=None):
    """Command line; returns the exit status."""
    options = parser().parse_args(arguments)
    languages = chosen(options.language)
    if options.command == "status":
        print(*work.status(languages=languages), sep="\n")
        return 0
    if options.command == "check":
        names = [page_named(name) for name in options.pages] or pages.names()
        return min(1, sum(check(language, names) for language in languages))
    if options.command == "write":
        return max(write(language, options.unreviewed) for language in languages)
    if options.command == "run":
        return run(languages, options.program, options.unreviewed)
    name = page_named(options.page)
    if options.command == "back":
        print(reviews.to_translate_back(options.language, name), end="")
        return 0
    if options.command == "beside":
        back = options.file.read_text(encoding="utf-8")
        print(reviews.beside(options.language, name, back), end="")
        return 0
    if options.command == "add":
        count = work.add(options.language, name, options.file.read_text(encoding="utf-8"))
        print(f"{options.language}/{name}: {count} blocks taken in")
        return 0
    print(getattr(work, options.command)(options.language, name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
