"""Settings of Python that each rank has for itself: output, logging, hooks, limits.

`os.umask` is not among them: reading it means to change it, also for other threads.
"""

import builtins
import gc
import locale
import logging
import socket
import sys
import tempfile
import threading
import warnings

import torch

# Replaced by programs that silence a rank, by `warnings.catch_warnings`, and for reports of errors.
REPLACED = (
    (sys, "stdout"),
    (sys, "stderr"),
    (sys, "displayhook"),
    (sys, "excepthook"),
    (sys, "unraisablehook"),
    (threading, "excepthook"),
    (builtins, "print"),
    (warnings, "showwarning"),
    (warnings, "_showwarnmsg_impl"),
    (logging, "_logRecordFactory"),
    (logging, "_loggerClass"),
    (logging, "_warnings_showwarning"),
    (tempfile, "tempdir"),
)
_ABSENT = object()


def get_output():
    """Return the streams and functions that a program may replace, and the warning filters."""
    return [getattr(module, name, _ABSENT) for module, name in REPLACED], [*warnings.filters]


def set_output(output):
    """Set what `get_output` has returned."""
    values, filters = output
    for (module, name), value in zip(REPLACED, values, strict=True):
        if value is not _ABSENT:
            setattr(module, name, value)
    if warnings.filters != filters:  # only then: it makes Python show warnings again
        warnings.filters = [*filters]
        warnings._filters_mutated()


_NAMES = logging._levelToName, logging._nameToLevel
_UNCONFIGURED = (logging.NOTSET, True, False, (), ())


def get_logging():
    """Return the settings of all configured loggers, names of levels, and the level disabled."""
    found = {
        logger: (
            logger.level, logger.propagate, logger.disabled, (*logger.filters,),
            (*[(handler, handler.level, (*handler.filters,)) for handler in logger.handlers],),
        )
        for logger in (logging.root, *logging.root.manager.loggerDict.values())
        if type(logger) is not logging.PlaceHolder
        and (
            logger.level or logger.handlers or logger.filters or logger.disabled
            or not logger.propagate
        )
    }  # fmt: skip
    return found, logging.root.manager.disable, [names.copy() for names in _NAMES]


def set_logging(configured):
    """Set what `get_logging` has returned."""
    now = get_logging()
    if now == configured:
        return
    own, logging.root.manager.disable, names = configured
    for shared, values in zip(_NAMES, names, strict=True):
        if shared != values:
            shared.clear()
            shared.update(values)
    for logger in now[0].keys() | own.keys():
        values = own.get(logger, _UNCONFIGURED)
        logger.level, logger.propagate, logger.disabled, filters, handlers = values
        logger.filters, logger.handlers = [*filters], []
        for handler, level, its_filters in handlers:
            handler.level, handler.filters = level, [*its_filters]
            logger.handlers.append(handler)
    logging.root.setLevel(logging.root.level)  # clears the cache of which loggers are enabled


def _get_print_options():
    return vars(torch._tensor_str.PRINT_OPTS).copy()


def _set_print_options(options):
    vars(torch._tensor_str.PRINT_OPTS).update(options)


_SETTINGS = (
    (_get_print_options, _set_print_options),
    (lambda: locale.setlocale(locale.LC_ALL), lambda value: locale.setlocale(locale.LC_ALL, value)),
    (socket.getdefaulttimeout, socket.setdefaulttimeout),
    (sys.getrecursionlimit, sys.setrecursionlimit),
    (gc.get_threshold, lambda values: gc.set_threshold(*values)),
)


def get_settings():
    """Return other settings of Python, and how PyTorch prints tensors."""
    return [get() for get, _ in _SETTINGS]


def set_settings(values):
    """Set those that differ from what `get_settings` has returned."""
    for (_, write), value, now in zip(_SETTINGS, values, get_settings(), strict=True):
        if value != now:
            write(value)
