"""The book with cells that run: in a browser, with a wrong token, at a taken port, until Ctrl-C."""

import json
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from types import SimpleNamespace

import pytest
from support import small_book
from support.browser import browser, find_browser, wait_for
from support.lab import variables
from support.paths import ROOT

from tools.live import server

needs_browser = pytest.mark.skipif(
    not find_browser(), reason="no browser: chromium is not installed"
)
PAGE = "/book/chapters/one.html"
CELL = "[...document.querySelectorAll('div.cell')].find(e => e.querySelector('textarea')?.value"
STATUS = "document.querySelector('.d2l-live-bar [role=status]').textContent"


def start(root, home, *arguments):
    """Start it; return its process, its address and its token."""
    log = home / "log"
    command = [sys.executable, "-m", "tools.live", "--no-build", "--no-browser"]
    command += ["--root", str(root), *(arguments or ["--port", "0"])]
    with log.open("w") as output:
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, env=variables(home)
        )
    pattern = r"(http://127\.0\.0\.1:\d+)/book/index.html\?token=(\w+)"

    def address():
        return process.poll() is not None or re.search(pattern, log.read_text())

    found = wait_for(address, 60, "make live")
    assert process.poll() is None, log.read_text()
    return SimpleNamespace(process=process, address=found[1], token=found[2], log=log)


def end(live):
    """Press Ctrl-C; return the exit status."""
    live.process.send_signal(signal.SIGINT)
    return live.process.wait(30)


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    """Build the small book; return its folder."""
    root = small_book.write(tmp_path_factory.mktemp("book"))
    command = [str(Path(sys.executable).parent / "jupyter-book"), "build", str(root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    (root / "_build" / "notebooks" / "scripts").mkdir(parents=True)
    (root / "_build" / "notebooks" / "scripts" / "run.py").write_text("print(6 * 7)\n")
    return root


@pytest.fixture(scope="module")
def live(book, tmp_path_factory):
    """Serve the small book."""
    served = start(book, tmp_path_factory.mktemp("home"))
    yield served
    if served.process.poll() is None:
        end(served)


@pytest.fixture(scope="module")
def tab(tmp_path_factory):
    """Start a browser; return its page."""
    with browser(tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture
def page(live, tab):
    """Open the first chapter, with nothing run and nothing edited."""
    tab.open(f"{live.address}{PAGE}?token={live.token}")
    tab.wait(
        "document.querySelector('.d2l-live-bar') !== null && localStorage.clear() === undefined"
    )
    tab.open(f"{live.address}{PAGE}")
    tab.wait("document.querySelector('.d2l-live-bar') !== null")
    return tab


def edit(tab, beginning, text):
    """Write into the cell that begins in some way; return an expression for the cell."""
    found = f"{CELL}.startsWith({json.dumps(beginning)}))" if beginning else f"{CELL} === '')"
    name = "window.edited = (window.edited || 0) + 1, window['cell' + window.edited] = " + found
    tab.ask(f"{name}, null")
    cell = f"window['cell{tab.ask('window.edited')}']"
    area = f"{cell}.querySelector('textarea')"
    tab.ask(f"{area}.value = {json.dumps(text)}, {area}.dispatchEvent(new Event('input')), null")
    return cell


def press(tab, cell):
    """Press Shift+Enter in a cell."""
    event = "new KeyboardEvent('keydown', {key: 'Enter', shiftKey: true, cancelable: true})"
    tab.ask(f"{cell}.querySelector('textarea').dispatchEvent({event}), null")


def shown(tab, cell):
    """Return what a cell shows."""
    return tab.ask(f"{cell}.querySelector('.cell_output')?.textContent || ''")


def ask(address, path, method="GET", **headers):
    """Return the status that the server answers with."""
    request = urllib.request.Request(address + path, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def kernels(live):
    """Return the kernels that run."""
    return json.loads(ask(live.address, "/api/kernels", Authorization=f"token {live.token}")[1])


@needs_browser
def test_an_edited_cell_shows_its_new_output(page, live):
    cell = edit(
        page, "run()", "import sys\nprint(math.pi > 3, seconds)\nprint('so', file=sys.stderr)\n6*7"
    )
    press(page, cell)
    page.wait(f"{STATUS}.includes('NameError')")
    assert "NameError" in shown(page, cell), "seconds is no name; math is, from the cell above"
    edit(page, "import sys", "import sys\nprint(math.pi > 3)\nprint('so', file=sys.stderr)\n6 * 7")
    cover = "<button class='d2l-cover' onclick='window.isUncovered = true'></button>"
    page.ask(f'{cell}.insertAdjacentHTML("beforeend", "{cover}"), null')
    page.ask(f"{cell}.querySelector('.d2l-live-run').click(), null")
    assert page.ask("window.isUncovered"), "the output of a guess"
    page.wait(f"{STATUS} === 'Ready.'")
    assert shown(page, cell).split() == ["True", "so", "42"]
    assert page.ask(f"{cell}.querySelector('pre').textContent").strip().endswith("6 * 7")
    assert len(kernels(live)) == 1


@needs_browser
def test_html_is_shown_and_timelines_are_live(page):
    code = (
        "from d2lmini import gpus, record\nimport torch\n(d,) = gpus(1, gpu='a100', quiet=True)\n"
    )
    code += "with record(d) as r:\n    torch.ones(9, device=d).sum().item()\nr.timeline"
    cell = edit(page, "run()", code)
    press(page, cell)
    page.wait(
        f"{cell}.querySelectorAll('.cell_output .d2l-tl').length === 1 && {STATUS} === 'Ready.'"
    )


@needs_browser
def test_kernels_work_in_the_readers_folder(page):
    edit(page, "run()", "x = 1")
    cell = edit(page, "!python", "!python scripts/run.py")
    press(page, cell)
    page.wait(f"{STATUS} === 'Ready.'")
    assert shown(page, cell).strip() == "42", "after 1 / 0 above, which is meant to fail"


@needs_browser
def test_interrupt_and_restart(page, live):
    cell = edit(page, "run()", "print('begun', flush=True)\nimport time\ntime.sleep(60)")
    press(page, cell)
    page.wait(f"{cell}.querySelector('.cell_output').textContent.includes('begun')")
    click = "[...document.querySelectorAll('.d2l-live-bar button')]"
    click += ".find(e => e.textContent === '{}').click()"
    page.ask(click.format("Interrupt"))
    page.wait(f"{STATUS} === 'Interrupted.'", 20)
    assert "KeyboardInterrupt" in shown(page, cell)
    (before,) = kernels(live)
    page.ask(click.format("Restart kernel"))
    wait_for(lambda: not kernels(live), 20, "the end of the kernel")
    edit(page, "print('begun'", "print(math.tau)")
    press(page, cell)
    page.wait(f"{STATUS} === 'Ready.'")
    assert shown(page, cell).startswith("6.28"), "the imports have run again"
    assert kernels(live)[0]["id"] != before["id"]


@needs_browser
def test_an_exercise_has_an_empty_cell_and_drafts_are_kept(page, live):
    names = "[...document.querySelectorAll('.d2l-live-answer textarea')].map(e => e.ariaLabel)"
    assert page.ask(names) == ["Your answer to exercise 1", "Your answer to exercise 2"]
    before = "document.querySelector('.d2l-live-answer').nextElementSibling.textContent"
    assert "# Solution" in page.ask(before)
    edit(page, "", "def add(a, b):\n    return a - b")
    page.open(f"{live.address}{PAGE}")
    page.wait("document.querySelector('.d2l-live-answer textarea')?.value.includes('a - b')")
    coloured = "document.querySelector('.d2l-live-answer pre .k')?.textContent"
    assert page.ask(coloured) == "def"


@needs_browser
def test_a_page_that_is_left_ends_its_kernel(page, live):
    press(page, edit(page, "run()", "1"))
    page.wait(f"{STATUS} === 'Ready.'")
    page.open("about:blank")
    wait_for(lambda: not kernels(live), 20, "the end of the kernel")


def test_without_the_token_nothing_is_handed_out(live):
    for path in (PAGE, "/live/live.js", "/live/cells/chapters/one", "/api/kernels"):
        for query in ("", "?token=wrong"):
            status, text = ask(live.address, path + query)
            assert status == 403, path
            assert live.token not in text
    assert ask(live.address, "/api/kernels", "POST", Authorization="token wrong")[0] == 403
    allowed = {"Authorization": f"token {live.token}"}
    assert ask(live.address, PAGE, **allowed)[0] == 200
    assert ask(live.address, PAGE, Host="example.org", **allowed)[0] == 403, "DNS rebinding"
    assert ask(live.address, "/book/../../_toc.yml", **allowed)[0] == 404
    assert ask(live.address, "/book/%2e%2e/%2e%2e/_toc.yml", **allowed)[0] == 404


def test_another_origin_gets_no_kernel(live):
    import websocket

    identity = {"Authorization": f"token {live.token}"}
    with urllib.request.urlopen(
        urllib.request.Request(
            f"{live.address}/api/kernels", b"{}", {**identity, "Content-Type": "application/json"}
        )
    ) as answer:
        kernel = json.load(answer)["id"]
    channels = f"{live.address.replace('http', 'ws')}/api/kernels/{kernel}/channels"
    with pytest.raises(websocket.WebSocketBadStatusException, match="403"):
        websocket.create_connection(channels, origin=live.address, timeout=20)
    cookie = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    with cookie.open(f"{live.address}{PAGE}?token={live.token}") as answer:
        assert "token" not in answer.url, "it does not stay in the address"
    (jar,) = [h.cookiejar for h in cookie.handlers if hasattr(h, "cookiejar")]
    known = "; ".join(f"{c.name}={c.value}" for c in jar)
    with pytest.raises(websocket.WebSocketBadStatusException, match="403"):
        websocket.create_connection(channels, origin="http://example.org", cookie=known, timeout=20)
    websocket.create_connection(channels, origin=live.address, cookie=known, timeout=20).close()
    assert ask(live.address, f"/api/kernels/{kernel}", "DELETE", **identity)[0] == 204


def test_built_pages_stay_without_the_script(book, live):
    built = (book / "_build" / "html" / "chapters" / "one.html").read_text(encoding="utf-8")
    assert "live.js" not in built
    assert server.with_script(built.encode(), "T").count(b"/live/live.js") == 1
    served = ask(live.address, PAGE, Authorization=f"token {live.token}")[1]
    assert served == server.with_script(built.encode(), live.token).decode()


def test_a_taken_port_is_said():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        command = [sys.executable, "-m", "tools.live", "--port", str(port)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"port {port} is taken" in done.stderr
    assert f"--port {port + 1}" in done.stderr
    assert "Traceback" not in done.stderr


def test_ctrl_c_ends_server_and_kernels(live):
    body = json.dumps({"name": "python3"}).encode()
    identity = {"Authorization": f"token {live.token}", "Content-Type": "application/json"}
    urllib.request.urlopen(
        urllib.request.Request(f"{live.address}/api/kernels", body, identity)
    ).close()
    children = children_of(live.process.pid)
    assert children
    assert end(live) == 0
    assert live.log.read_text().rstrip().endswith("live: ended")
    for child in children:
        assert not is_alive(child)


def children_of(number):
    """Return the ids of a process's children."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == number:
            found.append(int(path.parent.name))
    return found


def is_alive(number):
    """Say whether a process runs."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
