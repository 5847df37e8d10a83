"""What Python keeps once a process and a program sets by its rank: output, warnings, logging."""

import builtins
import logging
import os
import sys
import warnings

# What a rank that shall be silent replaces, and `catch_warnings`.
_OUTPUT = (
    (sys, "stdout"),
    (sys, "stderr"),
    (builtins, "print"),
    (warnings, "showwarning"),
    (warnings, "_showwarnmsg_impl"),
)


class Environment:
    """The environment variables, some of which tell one rank from another, and the directory."""

    def __init__(self, variables=()):
        self.keep()
        for name, value in dict(variables).items():
            self.variables[os.environ.encodekey(name)] = os.environ.encodevalue(value)

    def keep(self):
        """Note what the rank has made of them."""
        self.variables, self.directory = _variables().copy(), _directory()

    def restore(self):
        """Set those that are others now."""
        now, own = _variables(), self.variables
        if own != now:
            for name in [name for name in now if name not in own]:
                del os.environ[os.fsdecode(name)]
            for name in [name for name in own if own[name] != now.get(name)]:
                os.environ[os.fsdecode(name)] = os.fsdecode(own[name])
        if self.directory is not None and self.directory != _directory():
            os.chdir(self.directory)


def _variables():
    """Return the variables as they are, encoded: read at every turn, decoding would take long."""
    return os.environ._data


def _directory():
    try:
        return os.getcwd()
    except OSError:  # it was deleted
        return None


class Output:
    """Where a program prints, and which warnings it shows."""

    def __init__(self):
        self.keep()

    def keep(self):
        """Note it."""
        self.values = [getattr(module, name, None) for module, name in _OUTPUT]
        self.filters = [*warnings.filters]  # a copy: programs change the list itself

    def restore(self):
        """Set it."""
        for (module, name), value in zip(_OUTPUT, self.values, strict=True):
            if value is not None:
                setattr(module, name, value)
        if warnings.filters != self.filters:  # else what was shown once would be shown again
            warnings.filters = [*self.filters]
            warnings._filters_mutated()


class Logs:
    """How loggers are configured: level, handlers, and whether they are heard."""

    def __init__(self):
        self.keep()

    def keep(self):
        """Note it."""
        self.settings, self.disabled = _settings(), logging.root.manager.disable

    def restore(self):
        """Configure those that are others now."""
        now = _settings()
        if (now, logging.root.manager.disable) == (self.settings, self.disabled):
            return
        logging.root.manager.disable = self.disabled
        for logger in now.keys() | self.settings.keys():
            values = self.settings.get(logger, _UNCONFIGURED)
            logger.level, logger.propagate, logger.disabled, handlers = values
            logger.handlers = [*handlers]
        logging.root.setLevel(logging.root.level)  # forgets which loggers it took for enabled


_UNCONFIGURED = (logging.NOTSET, True, False, ())


def _settings():
    """Return how loggers are configured that are so at all."""
    found = {}
    for logger in (logging.root, *logging.root.manager.loggerDict.values()):
        if isinstance(logger, logging.PlaceHolder):
            continue
        if logger.level or logger.handlers or logger.disabled or not logger.propagate:
            found[logger] = logger.level, logger.propagate, logger.disabled, (*logger.handlers,)
    return found
