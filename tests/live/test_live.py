"""The book with cells that run: in a browser, with a wrong token, at a taken port, until Ctrl-C."""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_markdown_cell
from support.browser import wait_for
from support.live import STATUS, below, checkout, edit, end, is_alive, press, shown, start
from support.paths import ROOT
from support.samples import small_book

from tools.live import server

pytestmark = pytest.mark.browser  # or a server that only a browser asks

PAGE = "/book/chapters/one.html"
CONFIG = """\
execute: {execute_notebooks: "off"}
parse: {myst_enable_extensions: [colon_fence, dollarmath]}
bibtex_bibfiles: [references.bib]
sphinx:
  config:
    suppress_warnings:
      [myst.directive_option, misc.highlighting_failure, mystnb.glue, mystnb.glue_ref]
"""


def exercise_with_a_checker():
    """Return the cells of an exercise that a checker of the book judges."""
    solution = "# Solution\ndef share_of_wire(): ...\n\n\nchecks.check_share_of_wire(share_of_wire)"
    return [
        new_markdown_cell("### Exercise 3: Check\n\nWrite `share_of_wire`."),
        small_book.code("from d2lmini.checks import wires as checks", tags=["remove-cell"]),
        small_book.code(solution, tags=["hide-cell", "solution"]),
    ]


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    """Write the small book, in a folder where make works and builds it; return the folder."""
    root = small_book.write(tmp_path_factory.mktemp("book"))
    (root / "_config.yml").write_text(CONFIG, encoding="utf-8")
    with (root / "intro.md").open("a", encoding="utf-8") as intro:
        intro.write("\n```{bibliography}\n```\n")
    for path in root.glob("chapters/*.ipynb"):
        notebook = nbformat.read(path, as_version=4)
        if path.stem == "one":
            notebook.cells += exercise_with_a_checker()
        notebook.metadata.language_info = {"name": "python", "pygments_lexer": "ipython3"}
        nbformat.write(notebook, path)
    return checkout(root)


@pytest.fixture(scope="module")
def live(book, tmp_path_factory):
    """Build and serve the small book."""
    served = start(book, tmp_path_factory.mktemp("home"))
    (book / "_build" / "notebooks" / "scripts" / "run.py").write_text("print(6 * 7)\n")
    yield served
    if served.process.poll() is None:
        end(served)


@pytest.fixture
def page(tab, live):
    """Open the first chapter, with nothing run and nothing edited."""
    tab.open(f"{live.address}{PAGE}?token={live.token}")
    tab.wait(
        "document.querySelector('.d2l-live-bar') !== null && localStorage.clear() === undefined"
    )
    tab.open(f"{live.address}{PAGE}")
    tab.wait("document.querySelector('.d2l-live-bar') !== null")
    return tab


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


def test_kernels_work_in_the_readers_folder(page):
    edit(page, "run()", "x = 1")
    cell = edit(page, "!python", "!python scripts/run.py")
    press(page, cell)
    page.wait(f"{STATUS} === 'Ready.'")
    assert shown(page, cell).strip() == "42", "after 1 / 0 above, which is meant to fail"


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


def test_an_exercise_has_an_empty_cell_and_drafts_are_kept(page, live):
    names = "[...document.querySelectorAll('.d2l-live-answer textarea')].map(e => e.ariaLabel)"
    assert page.ask(names) == [
        "Your answer to exercise 1",
        "Your answer to exercise 2",
        "Your answer to exercise 3",
    ]
    before = "document.querySelector('.d2l-live-answer').nextElementSibling.textContent"
    assert "# Solution" in page.ask(before)
    edit(page, "", "def add(a, b):\n    return a - b")
    page.open(f"{live.address}{PAGE}")
    page.wait("document.querySelector('.d2l-live-answer textarea')?.value.includes('a - b')")
    coloured = "document.querySelector('.d2l-live-answer pre .k')?.textContent"
    assert page.ask(coloured) == "def"


def test_an_answer_names_its_checker_and_runs_only_what_it_needs(page):
    call = "checks.check_share_of_wire(share_of_wire)"
    hint = f"# Your solution. Then check it:\n# {call}"
    cell = edit(page, "# Your solution", f"share_of_wire = lambda *names: 2\n{call}")
    page.ask(f"{cell}.querySelector('.d2l-live-row button:not(.d2l-live-run)').click(), null")
    assert page.ask(f"{cell}.querySelector('textarea').value") == hint
    edit(page, "# Your solution", f"share_of_wire = lambda *names: 2\n{call}")
    press(page, cell)
    page.wait(f"{STATUS}.includes('the checker says')")  # and no NameError of the cells above
    verdict = page.ask(f"{cell}.querySelector('.d2l-live-verdict').textContent")
    assert verdict.startswith("ring, 8 GPUs")
    assert "\n" not in verdict
    assert page.ask(f"!{cell}.querySelector('.d2l-live-traceback').open")
    assert "d2lmini/checks" in shown(page, cell), "in the fold"
    said = f"{cell}.querySelector('.d2l-live-said').textContent"
    edit(page, "share_of_wire", "checks.check_share_of_wire.__name__")
    press(page, cell)
    page.wait(f"{STATUS} === 'Ready.'")
    assert page.ask(said).startswith("Ran for"), "the imports have run"
    assert "after" not in page.ask(said)


def test_control_and_brackets_indent_lines(page):
    cell = edit(page, "run()", "a = 1\nb = 2")
    area = f"{cell}.querySelector('textarea')"
    press_bracket = (
        f"key => {area}.dispatchEvent(new KeyboardEvent('keydown', {{key, ctrlKey: true}}))"
    )
    page.ask(f"{area}.focus(), {area}.setSelectionRange(7, 9), ({press_bracket})(']')")
    assert page.ask(f"{area}.value") == "a = 1\n    b = 2"
    page.ask(f"{area}.setSelectionRange(0, 14), ({press_bracket})('[')")
    assert page.ask(f"{area}.value") == "a = 1\nb = 2"


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


@pytest.mark.parametrize("name", ["%00", "a%00b.html", "x" * 5000, "a/" * 3000])
@pytest.mark.parametrize("place", ["/book/", "/live/cells/"])
def test_what_can_be_no_file_is_not_found(live, place, name):
    assert ask(live.address, place + name, Authorization=f"token {live.token}")[0] == 404
    assert "Traceback" not in live.log.read_text()


def test_a_large_request_is_refused_before_it_is_read(live):
    address, port = live.address.removeprefix("http://").split(":")
    with socket.create_connection((address, int(port)), timeout=20) as client:
        client.sendall(b"POST /api/kernels HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        client.sendall(f"Content-Length: {server.LARGEST + 1}\r\n\r\n".encode())
        assert client.recv(99).startswith((b"HTTP/1.1 400", b"HTTP/1.1 413"))


def test_no_port_of_a_kernel_can_be_listened_to(page):
    file = "__import__('ipykernel').get_connection_file()"
    cell = edit(page, "run()", f"print(open({file}).read())")
    press(page, cell)
    page.wait(f"{STATUS} === 'Ready.'")
    connection = json.loads(shown(page, cell))
    assert connection["transport"] == "ipc"
    folder = Path(connection["ip"]).parent  # short, wherever the reader's home is
    assert (folder.parent, folder.stat().st_mode & 0o77) == (Path("/tmp"), 0)


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


def test_a_closed_terminal_ends_server_kernel_and_what_a_cell_has_started(
    book, tmp_path_factory, tab
):
    other = start(book, tmp_path_factory.mktemp("home"))
    tab.open(f"{other.address}{PAGE}?token={other.token}")
    tab.wait("document.querySelector('.d2l-live-bar') !== null")
    cell = edit(tab, "run()", "import subprocess\nsubprocess.run(['sleep', '977'])")
    press(tab, cell)
    wait_for(lambda: len(below(other.process.pid)) >= 3, 30, "the server, the kernel and sleep")
    started = below(other.process.pid)
    os.killpg(other.process.pid, signal.SIGHUP)
    other.process.wait(30)
    wait_for(lambda: not any(map(is_alive, started)), 20, "the end of all")


def test_ctrl_c_ends_server_and_kernels(page, live):
    cell = edit(page, "run()", "print(6 * 7)")
    press(page, cell)
    page.wait(f"{STATUS} === 'Ready.'")
    assert shown(page, cell).strip() == "42"
    edit(page, "print(6", "print('begun', flush=True)\nimport time\ntime.sleep(60)")
    press(page, cell)
    page.wait(f"{cell}.querySelector('.cell_output').textContent.includes('begun')")
    started = below(live.process.pid)
    assert len(started) >= 2, "the server, the kernel"
    end(live)
    assert not any(map(is_alive, started))
    page.wait(f"{STATUS} === 'Stopped: the server has ended.'", 20)
    assert "live: ended" in live.log.read_text()
