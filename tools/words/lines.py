"""The lines that programs write into the chapters: read and written in the language of the copy.

Under a title stands how many minutes the chapter takes; under an exercise's heading its kind, how
hard it is, and its minutes. A copy in another language begins with the English lines.
"""

import re
from itertools import product

from tools import words
from tools.words import one_of, pattern, say


def time_words(say=say):
    """Return what the line under a title says: of one minute, of more."""
    return {
        "core": (
            say("{read} minute to read the core, {all} to read all"),
            say("{read} minutes to read the core, {all} to read all"),
        ),
        "read": (say("{read} minute to read"), say("{read} minutes to read")),
        "exercises": (say("{exercises} for the exercises"),),
        "run": (say("{run} minute to run"), say("{run} minutes to run")),
        "join": say("{first}, {second}"),
        "line": say("*{words}.*"),
    }


def joined_time_line(own, parts):
    """Return the line under a title, with its fields, from its parts."""
    line, *rest = filter(None, parts)
    for part in rest:
        line = words.fill(own["join"], {"first": line, "second": part})
    return words.fill(own["line"], {"words": line})


def time_line(text):
    """Return the match of the line under a title, None if there is none.

    Its groups are the minutes: ``read``, and what there is of ``all``, ``exercises``, ``run``.
    """
    for own in (time_words(), time_words(str)):
        choices = (own["core"] + own["read"], ("", *own["exercises"]), ("", *own["run"]))
        for parts in product(*choices):
            line = pattern(joined_time_line(own, parts))
            if found := re.search(f"^{line}$", text, re.MULTILINE):
                return found
    return None


def written_time_line(minutes):
    """Return the line under a title from its minutes, by the names of `time_line`'s groups."""
    own = time_words()
    main = own["core" if minutes.get("all") else "read"][int(minutes["read"]) != 1]
    exercises = own["exercises"][0] if minutes.get("exercises") else ""
    run = own["run"][int(minutes["run"]) != 1] if minutes.get("run") else ""
    return words.fill(joined_time_line(own, (main, exercises, run)), minutes)


def exercise_words(say=say):
    """Return what the line under an exercise's heading says: the line, the kinds, how hard."""
    return (
        say("*{kind}, {level}, {n} minutes.*"),
        (say("On paper"), say("Code with a checker"), say("On your own job")),
        (say("easy"), say("medium"), say("hard")),
    )


def exercise_lines(text):
    """Return kind, how hard, and minutes of each exercise, the words in English."""
    _, english, hard = exercise_words(str)
    found = []
    for tell in dict.fromkeys((say, str) if words.table() else (str,)):
        line, kinds, levels = exercise_words(tell)
        line = pattern(line, kind=one_of(kinds), level=one_of(levels))
        for match in re.finditer(f"^{line}$", text, re.MULTILINE):
            place = kinds.index(match["kind"]), levels.index(match["level"])
            found.append((english[place[0]], hard[place[1]], int(match["n"])))
    return found


def reword_exercises(text):
    """Return a text whose exercises say in the language of this copy what they are."""
    if not words.table():
        return text
    (old, *english), (new, *own) = exercise_words(str), exercise_words()
    known = dict(zip(english[0] + english[1], own[0] + own[1], strict=True))

    def reworded(match):
        return words.fill(new, {k: known.get(v, v) for k, v in match.groupdict().items()})

    line = pattern(old, kind=one_of(english[0]), level=one_of(english[1]))
    return re.sub(f"^{line}$", reworded, text, flags=re.MULTILINE)
