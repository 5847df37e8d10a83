"""The places that data come from: D2LMINI_DATA, the cache, a mirror on this machine, the digits."""

import gzip
import importlib
import os
import re
import runpy
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from types import SimpleNamespace

import pooch
import pytest
from support.paths import PYTHONPATH
from support.samples import tiny_data
from support.samples.tiny_data import CONTENTS, IMAGES, LABELS, LAST, Mirror, send

from d2lmini.data import DataError, cache, fashion
from d2lmini.data.fashion import read_folder
from d2lmini.data.places import find_data

FROM_CACHE = "Fashion-MNIST, 20 + 10 images, from the cache"


@pytest.fixture
def mirror():
    mirror = Mirror()
    yield mirror
    mirror.close()


@pytest.fixture
def folder(tmp_path, mirror, monkeypatch):
    """Return the cache folder, which is not there; `mirror` has the files."""
    return tiny_data.use(monkeypatch, tmp_path, mirror.url)


def assert_digits(reason):
    """Check that the data are the digits, for this reason, which holds no path or address."""
    source = find_data().source
    reasons = rf"\(Fashion-MNIST could not be downloaded: {reason}; set D2LMINI_DATA to .*\)"
    assert re.fullmatch(rf"handwritten digits, 20 \+ 10 images, embedded {reasons}", source), source
    assert not re.search(r"127\.0\.0|/", source), source


# --- from a mirror into the cache


def test_download_once_then_from_the_cache(folder, mirror, capfd):
    data = find_data()
    assert data.source == FROM_CACHE
    assert data.train[0].flatten().tolist() == list(CONTENTS[IMAGES][16:])
    assert [f"/data/{name}.gz" for name in CONTENTS] == mirror.requests
    assert find_data().source == FROM_CACHE
    assert len(mirror.requests) == 4
    assert capfd.readouterr() == ("", "")  # no bar where nobody watches
    assert sorted(path.name for path in folder.iterdir()) == sorted(CONTENTS)
    umask = os.umask(0)
    os.umask(umask)
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o666 & ~umask}


def test_progress_bar_on_a_terminal(folder, capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    find_data()
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("100%") >= 4


def half(handler):
    """Announce all and break off in the middle."""
    content = gzip.compress(CONTENTS[Path(handler.path).stem])
    send(handler, content[: len(content) // 2], announced=len(content))


def endless(handler):
    """Begin well and then send more and more."""
    send(handler, gzip.compress(CONTENTS[IMAGES]), announced=10**12)
    for _ in range(300):
        handler.wfile.write(bytes(100_000))


CHECKSUM = f"the server's {IMAGES}.gz has a wrong checksum"
BAD_ANSWERS = {
    "404": (404, "HTTP status 404"),
    "connection broken": (half, r"the connection failed, \w+"),
    "cut": (gzip.compress(CONTENTS[IMAGES])[:-20], CHECKSUM),
    "nothing": (b"", CHECKSUM),
    "web page": (b"<html>Please log in</html>", CHECKSUM),
    "one bit": (gzip.compress(CONTENTS[IMAGES][:-1] + bytes([CONTENTS[IMAGES][-1] ^ 1])), CHECKSUM),
    "other file": (gzip.compress(CONTENTS[LABELS]), CHECKSUM),
    "bomb": (gzip.compress(bytes(10_000_000)), CHECKSUM),
    "endless": (endless, CHECKSUM),
}


@pytest.mark.parametrize("kind", BAD_ANSWERS)
def test_bad_answer_leads_to_the_digits_and_leaves_nothing(folder, mirror, kind):
    mirror.answers[f"{IMAGES}.gz"], reason = BAD_ANSWERS[kind]
    assert_digits(reason)
    assert not list(folder.iterdir())


def test_second_mirror_helps(folder, mirror, monkeypatch):
    other = Mirror()
    other.answers = dict.fromkeys(other.answers, 404) | {f"{LABELS}.gz": b"garbage"}
    monkeypatch.setattr(fashion, "MIRRORS", (other.url, mirror.url))
    assert find_data().source == FROM_CACHE
    other.close()


@pytest.mark.slow
def test_silent_mirror_is_given_up_once(folder, mirror, monkeypatch):
    monkeypatch.setattr(cache, "TIMEOUT", (0.2, 0.2))
    mirror.answers[f"{IMAGES}.gz"] = lambda _: mirror.released.wait(5)
    for _ in range(2):
        assert_digits("the connection failed, ReadTimeout")
    assert len(mirror.requests) == 1
    tiny_data.write(folder)
    assert find_data().source == FROM_CACHE


def test_nobody_listens(folder, mirror):
    mirror.close()
    assert_digits("the connection failed, ConnectionError")


def test_proxy_of_the_environment_is_used(folder, mirror, monkeypatch):
    monkeypatch.setattr(fashion, "MIRRORS", ("http://no-such-host.invalid/data/",))
    monkeypatch.setenv("http_proxy", mirror.url)
    assert find_data().source == FROM_CACHE
    assert mirror.requests[0] == f"http://no-such-host.invalid/data/{IMAGES}.gz"


def test_cache_folder_that_cannot_be_written(folder, tmp_path):
    (tmp_path / "d2lmini").write_text("in the way")
    assert_digits("cache folder: not a directory")


def test_cache_folder_that_cannot_be_looked_at(folder, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", f"/{'x' * 300}")
    assert_digits("cache folder: file name too long")


@pytest.mark.parametrize("is_refused", [False, True])
def test_no_home_folder(folder, tmp_path, monkeypatch, is_refused):
    def os_cache(name):
        if is_refused:  # as new versions of platformdirs do
            raise RuntimeError("Could not determine home directory.")
        return Path("~nosuchuser", ".cache", name)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pooch, "os_cache", os_cache)
    assert_digits("there is no home folder to keep it in")
    assert not list(tmp_path.iterdir())


def test_import_in_a_notebook_without_widgets_is_silent(monkeypatch):
    def forget():
        for name in [n for n in sys.modules if n.startswith(("pooch", "tqdm.auto", "tqdm.note"))]:
            monkeypatch.delitem(sys.modules, name)

    for name in ("ipywidgets", "IPython.html.widgets", "ipykernel.zmqshell"):
        monkeypatch.setitem(sys.modules, name, None)  # the last one is looked for, not imported
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    forget()
    with pytest.warns(match="ipywidgets"):
        importlib.import_module("pooch")
    forget()
    with warnings.catch_warnings(record=True) as caught:
        runpy.run_path(cache.__file__)
    assert not caught


# --- interruptions and races


def test_interrupted_download_goes_on(folder, mirror):
    good, mirror.answers[f"{LAST}.gz"] = mirror.answers[f"{LAST}.gz"], half
    assert_digits(r"the connection failed, \w+")
    assert {path.name for path in folder.iterdir()} == set(CONTENTS) - {LAST}
    mirror.answers[f"{LAST}.gz"] = good
    cache._failures.clear()  # as in a new process
    assert find_data().source == FROM_CACHE
    assert len(mirror.requests) == 4 + 1


SCRIPT = """
import sys
from support.samples import tiny_data
from d2lmini.data import cache, fashion
fashion.FILES, fashion.MIRRORS = tiny_data.FILES, (sys.argv[1],)
cache.fill()
"""


def start_download(url):
    command = [sys.executable, "-c", SCRIPT, url]
    env = os.environ | {"PYTHONPATH": PYTHONPATH}
    return subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True)


@pytest.mark.process
def test_killed_process_leaves_nothing_that_counts(folder, mirror):
    under_way = threading.Event()
    good = mirror.answers[f"{LABELS}.gz"]

    def stall(handler):
        send(handler, good[:10], announced=len(good))
        under_way.set()
        mirror.released.wait(60)

    mirror.answers[f"{LABELS}.gz"] = stall
    process = start_download(mirror.url)
    assert under_way.wait(60)
    process.kill()
    process.communicate()
    assert {path.name for path in folder.iterdir()} & set(CONTENTS) == {IMAGES}
    mirror.answers[f"{LABELS}.gz"] = good
    assert find_data().source == FROM_CACHE


@pytest.mark.process
def test_two_processes_at_once(folder, mirror):
    barrier = threading.Barrier(2)

    def both_there(name):
        def answer(handler):
            barrier.wait(60)
            send(handler, gzip.compress(CONTENTS[name]))

        return answer

    mirror.answers = {f"{name}.gz": both_there(name) for name in CONTENTS}
    processes = [start_download(mirror.url) for _ in range(2)]
    for process in processes:
        _, error = process.communicate(timeout=60)
        assert (process.returncode, error) == (0, "")  # no path or address is printed
    assert sorted(path.name for path in folder.iterdir()) == sorted(CONTENTS)
    read_folder(folder, "here", "")


# --- D2LMINI_DATA and the cache


def test_given_folder_comes_first(folder, mirror, tmp_path, monkeypatch):
    tiny_data.write(tmp_path / "given")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("D2LMINI_DATA", "~/given")
    assert find_data().source == "Fashion-MNIST, 20 + 10 images, from D2LMINI_DATA"
    assert mirror.requests == []


@pytest.mark.parametrize("files", [None, {LABELS: b"damaged"}])
def test_given_folder_is_never_replaced(folder, mirror, tmp_path, monkeypatch, files):
    given = tmp_path / "given"
    if files is not None:
        tiny_data.write(given, **files)
    tiny_data.write(folder)
    monkeypatch.setenv("D2LMINI_DATA", str(given))
    with pytest.raises(DataError, match="or unset it") as caught:
        find_data()
    assert str(given) in str(caught.value)
    assert mirror.requests == []


@pytest.mark.parametrize("name", ["nowhere", "~nosuchuser"])
def test_folder_that_is_not_there_is_named_in_full(folder, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("D2LMINI_DATA", name)
    with pytest.raises(DataError, match=f"D2LMINI_DATA is '{name}'") as caught:
        find_data()
    assert str(caught.value).startswith(f"{tmp_path / name}: no such folder")


def test_empty_variable_is_not_set(folder, monkeypatch):
    monkeypatch.setenv("D2LMINI_DATA", "")
    assert find_data().source == FROM_CACHE


def test_damaged_cache_is_reported(folder, mirror):
    tiny_data.write(folder, **{IMAGES: CONTENTS[IMAGES][:100]})
    with pytest.raises(DataError, match=r"truncated, .* Delete the folder .*fashion-mnist; it"):
        find_data()
    assert mirror.requests == []


def test_command_line(tmp_path, monkeypatch):
    monkeypatch.setenv("D2LMINI_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(SystemExit, match="nowhere: no such folder"):
        runpy.run_module("d2lmini.data", run_name="__main__")
