"""The parser of every command: an error is one line, and names the option that is nearest."""

import argparse

from simgpu.nearest import nearest


class Parser(argparse.ArgumentParser):
    """A parser without abbreviations, whose errors do not repeat all options."""

    remedy = ""  # what an error about unknown arguments says besides

    def __init__(self, **kwargs):
        super().__init__(allow_abbrev=False, **kwargs)

    def parse_args(self, args=None, namespace=None):
        """Parse arguments; of unknown ones all are named, each with the nearest option."""
        found, unknown = self.parse_known_args(args, namespace)
        if unknown:
            words = " ".join(map(self._with_nearest, unknown))
            self.error(f"unrecognized arguments: {words}{self.remedy}")
        return found

    def _with_nearest(self, word):
        name, *_ = word.split("=")
        near = nearest(name, self._option_string_actions) if word.startswith("-") else None
        return f"{word} (did you mean {near}?)" if near else word

    def error(self, message):
        """Print an error, and where the options are; exit with code 2."""
        self.exit(2, f"{self.prog}: error: {message}\n`{self.prog} --help` lists the options.\n")
