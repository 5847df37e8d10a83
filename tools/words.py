"""Words that tools say to readers."""


def say(english, **values):
    """Return what is said in the language of this copy of the book."""
    return english.format(**values) if values else english


def found():
    """Return the English words of all tools."""
    return []
