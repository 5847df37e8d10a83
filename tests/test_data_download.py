"""The places that data come from: D2LMINI_DATA, the cache, a mirror on this machine, the digits."""

import gzip
import os
import re
import runpy
import subprocess
import sys
import textwrap
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
import tiny_idx
from tiny_mirror import Mirror, send

from d2lmini.data import DataError
from d2lmini.data.digits import make_digits
from d2lmini.data.download import DownloadError, download, fashion_mnist_mirrors
from d2lmini.data.fashion import read_folder
from d2lmini.data.places import Places, cache_folder, find_data

IMAGES = "train-images-idx3-ubyte"
LABELS = "train-labels-idx1-ubyte"
REASON = r"handwritten digits, .* embedded \(Fashion-MNIST could not be downloaded: {}; set D2LMINI"


@pytest.fixture
def mirror(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    mirror = Mirror()
    yield mirror
    mirror.close()


def few_digits():
    return make_digits(20, 10)


def places_for(tmp_path, *urls, timeout=10.0, **environ):
    environ = {"XDG_CACHE_HOME": str(tmp_path), **environ}
    return Places(environ, tiny_idx.FILES, lambda: urls, timeout, few_digits)


def cached(tmp_path):
    return tmp_path / "d2lmini" / "fashion-mnist"


def assert_nothing_left(folder):
    """Check that neither the folder nor a temporary one is there."""
    assert not folder.exists(), sorted(folder.iterdir())
    assert not folder.parent.exists() or not list(folder.parent.iterdir())


# --- from a mirror into the cache


def test_download_once_then_from_the_cache(tmp_path, mirror, capfd):
    places = places_for(tmp_path, mirror.url)
    data = find_data(places)
    assert data.source == "Fashion-MNIST, 20 + 10 images, from the cache"
    assert data.train[0].flatten().tolist() == list(tiny_idx.CONTENTS[IMAGES][16:])
    assert sorted(mirror.requests) == sorted(mirror.answers)
    assert find_data(places).source == data.source
    assert len(mirror.requests) == 4
    assert capfd.readouterr() == ("", "")  # no bar where nobody watches
    assert [path.name for path in cached(tmp_path).parent.iterdir()] == ["fashion-mnist"]
    umask = os.umask(0)
    os.umask(umask)
    assert cached(tmp_path).stat().st_mode & 0o777 == 0o777 & ~umask


def test_progress_bar_on_a_terminal(tmp_path, mirror, capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    find_data(places_for(tmp_path, mirror.url))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "t10k-labels-idx1-ubyte.gz: 100%" in captured.err


def half(handler):
    """Announce all and break off in the middle."""
    content = gzip.compress(tiny_idx.CONTENTS[IMAGES])
    send(handler, content[: len(content) // 2], announced=len(content))


def other_image(_=None):
    content = bytearray(tiny_idx.CONTENTS[IMAGES])
    content[500] ^= 1
    return gzip.compress(bytes(content))


BAD_ANSWERS = {
    "404": (404, "HTTP status 404"),
    "503": (503, "HTTP status 503"),
    "connection broken": (half, ".*(broke|ended too early)"),
    "cut": (gzip.compress(tiny_idx.CONTENTS[IMAGES])[:-20], ".*gz ended too early"),
    "nothing": (b"", ".*gz ended too early"),
    "web page": (b"<html>Please log in</html>", ".*is not a gzip file"),
    "wrong hash": (other_image(), ".*has a wrong checksum"),
    "other file": (gzip.compress(tiny_idx.CONTENTS[LABELS]), ".*has a wrong checksum"),
    "bomb": (gzip.compress(bytes(10_000_000)), ".*is too long"),
}


@pytest.mark.parametrize("kind", BAD_ANSWERS)
def test_bad_answer_leads_to_the_digits_and_leaves_nothing(tmp_path, mirror, kind):
    mirror.answers[f"{IMAGES}.gz"], reason = BAD_ANSWERS[kind]
    data = find_data(places_for(tmp_path, mirror.url))
    assert_matches(REASON.format(reason), data.source)
    assert str(tmp_path) not in data.source
    assert "127.0.0.1" not in data.source
    assert_nothing_left(cached(tmp_path))


def assert_matches(pattern, text):
    assert re.match(pattern, text), text


def test_second_mirror_helps(tmp_path, mirror):
    other = Mirror()
    other.answers = dict.fromkeys(other.answers, 404)
    other.answers[f"{LABELS}.gz"] = b"garbage"
    data = find_data(places_for(tmp_path, other.url, mirror.url.rstrip("/")))
    other.close()
    assert data.source == "Fashion-MNIST, 20 + 10 images, from the cache"


def test_slow_mirror_is_waited_for(tmp_path, mirror):
    def trickle(handler):
        content = gzip.compress(tiny_idx.CONTENTS[IMAGES])
        handler.send_response(200)
        handler.end_headers()
        for start in range(0, len(content), 4000):
            time.sleep(0.1)
            handler.wfile.write(content[start : start + 4000])

    mirror.answers[f"{IMAGES}.gz"] = trickle
    data = find_data(places_for(tmp_path, mirror.url))
    assert data.source.startswith("Fashion-MNIST")


def test_silent_mirror_is_given_up_once(tmp_path, mirror):
    mirror.answers[f"{IMAGES}.gz"] = lambda _: mirror.released.wait(60)
    attempts = []

    def count_attempts():
        attempts.append(1)
        return (mirror.url,)

    places = replace(places_for(tmp_path, timeout=0.2), mirrors=count_attempts)
    for _ in range(2):
        assert_matches(REASON.format("no answer within 0.2 s"), find_data(places).source)
    assert len(attempts) == 1
    assert_nothing_left(cached(tmp_path))


def test_nobody_listens(tmp_path, mirror):
    mirror.close()
    data = find_data(places_for(tmp_path, mirror.url))
    assert_matches(REASON.format("connection refused"), data.source)


def test_mirrors_are_torchvisions():
    assert all(url.startswith("http") for url in fashion_mnist_mirrors())
    assert fashion_mnist_mirrors()


def test_cache_folder_that_cannot_be_written(tmp_path, mirror):
    (tmp_path / "d2lmini").write_text("in the way")
    data = find_data(places_for(tmp_path, mirror.url))
    assert_matches(REASON.format("cache folder: .*"), data.source)
    assert str(tmp_path) not in data.source


# --- interruptions and races


def naive_download(folder, mirrors, files):
    """Wrong: writes to the final place while it downloads."""
    from urllib.request import urlopen

    folder.mkdir(parents=True)
    for file in files:
        with urlopen(f"{mirrors[0]}{file.name}.gz") as response:
            (folder / file.name).write_bytes(gzip.decompress(response.read()))


def check_interrupted_download(download_function, mirror, folder):
    mirror.answers["t10k-labels-idx1-ubyte.gz"] = 500  # the last file of the four
    with pytest.raises((DownloadError, OSError)):
        download_function(folder, (mirror.url,), tiny_idx.FILES)
    assert_nothing_left(folder)


def test_interrupted_download_leaves_nothing(tmp_path, mirror):
    check_interrupted_download(download, mirror, tmp_path / "good")
    with pytest.raises(AssertionError):
        check_interrupted_download(naive_download, mirror, tmp_path / "bad" / "data")


SCRIPT = textwrap.dedent("""
    import sys
    from pathlib import Path
    import tiny_idx
    from d2lmini.data.download import download
    download(Path(sys.argv[1]), (sys.argv[2],), tiny_idx.FILES)
""")


def start_download(folder, url):
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parent), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", SCRIPT, str(folder), url]
    return subprocess.Popen(command, env=environ, stderr=subprocess.PIPE, text=True)


def test_killed_process_leaves_nothing_that_counts(tmp_path, mirror):
    under_way = threading.Event()
    good = mirror.answers[f"{LABELS}.gz"]

    def stall(handler):
        send(handler, good[:10], announced=len(good))
        under_way.set()
        mirror.released.wait(60)

    mirror.answers[f"{LABELS}.gz"] = stall
    folder = cached(tmp_path)
    process = start_download(folder, mirror.url)
    assert under_way.wait(60)
    process.kill()
    process.communicate()
    assert not folder.exists()
    (rest,) = folder.parent.iterdir()
    mirror.answers[f"{LABELS}.gz"] = good
    find_data(places_for(tmp_path, mirror.url))
    assert rest.exists()  # a living process may own it
    os.utime(rest, (0, 0))
    download(folder.parent / "fashion-mnist", (mirror.url,), tiny_idx.FILES)
    assert not rest.exists()


def test_two_processes_at_once(tmp_path, mirror):
    barrier = threading.Barrier(2)
    last = "t10k-labels-idx1-ubyte.gz"
    content = mirror.answers[last]

    def both_there(handler):
        barrier.wait(60)
        send(handler, content)

    mirror.answers[last] = both_there
    folder = tmp_path / "cache" / "data"
    processes = [start_download(folder, mirror.url) for _ in range(2)]
    for process in processes:
        _, error = process.communicate(timeout=60)
        assert process.returncode == 0, error
    assert [path.name for path in folder.parent.iterdir()] == ["data"]
    read_folder(folder, "here", "", tiny_idx.FILES)


# --- D2LMINI_DATA and the cache


def test_given_folder_comes_first(tmp_path, mirror):
    given = tiny_idx.write(tmp_path / "given")
    data = find_data(places_for(tmp_path, mirror.url, D2LMINI_DATA=str(given)))
    assert data.source == "Fashion-MNIST, 20 + 10 images, from D2LMINI_DATA"
    assert mirror.requests == []


@pytest.mark.parametrize("files", [None, {LABELS: b"damaged"}])
def test_given_folder_is_never_replaced(tmp_path, mirror, files):
    given = tmp_path / "given"
    if files is not None:
        tiny_idx.write(given, **files)
    tiny_idx.write(cached(tmp_path))
    with pytest.raises(DataError, match="or unset it") as caught:
        find_data(places_for(tmp_path, mirror.url, D2LMINI_DATA=str(given)))
    assert str(given) in str(caught.value)
    assert mirror.requests == []


def test_relative_folder_is_named_in_full(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match="D2LMINI_DATA is 'nowhere'") as caught:
        find_data(places_for(tmp_path, D2LMINI_DATA="nowhere"))
    assert str(tmp_path / "nowhere") in str(caught.value)


def test_empty_variable_is_not_set(tmp_path, mirror):
    data = find_data(places_for(tmp_path, mirror.url, D2LMINI_DATA=""))
    assert data.source.endswith("from the cache")


def test_damaged_cache_is_reported(tmp_path, mirror):
    tiny_idx.write(cached(tmp_path), **{IMAGES: tiny_idx.CONTENTS[IMAGES][:100]})
    with pytest.raises(DataError, match=r"truncated, .* Delete the folder .*fashion-mnist; it"):
        find_data(places_for(tmp_path, mirror.url))
    assert mirror.requests == []


def test_command_line(tmp_path, monkeypatch):
    monkeypatch.setenv("D2LMINI_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(SystemExit, match="nowhere: no such folder"):
        runpy.run_module("d2lmini.data", run_name="__main__")


@pytest.mark.parametrize(
    ("platform", "environ", "base"),
    [
        ("linux", {"HOME": "/home/me"}, "/home/me/.cache"),
        ("linux", {"HOME": "/home/me", "XDG_CACHE_HOME": "/fast"}, "/fast"),
        ("linux", {"HOME": "/home/me", "XDG_CACHE_HOME": "relative"}, "/home/me/.cache"),
        ("darwin", {"HOME": "/Users/me"}, "/Users/me/Library/Caches"),
        ("win32", {"LOCALAPPDATA": "/C/Local", "HOME": "/x"}, "/C/Local"),
    ],
)
def test_cache_folder(platform, environ, base):
    assert cache_folder(environ, platform) == Path(base, "d2lmini", "fashion-mnist")


def test_no_home_folder(monkeypatch):
    def no_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    assert_matches(
        REASON.format("there is no home folder.*"), find_data(Places({}, digits=few_digits)).source
    )
