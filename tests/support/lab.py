"""A JupyterLab of its own for a test: loopback, random token, no settings of the user's."""

import json
import os
import re
import secrets
import subprocess
import sys
from contextlib import contextmanager

from support.browser import wait_for
from support.paths import ROOT

TRACKER = "lab/user-settings/@jupyterlab/notebook-extension/tracker.jupyterlab-settings"


def variables(home):
    """Return the variables under which Jupyter keeps everything in one folder."""
    names = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")
    own = {name: str(home / name.lower()) for name in names}
    return {**os.environ, **own, "JUPYTER_CONFIG_PATH": str(ROOT / "tools" / "readers" / "lab")}


@contextmanager
def lab(folder, home):
    """Serve a folder; yield a function from a notebook's name to its address."""
    settings = home / "jupyter_config_dir" / TRACKER
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps({"windowingMode": "none"}))  # cells out of sight as well
    token, log = secrets.token_hex(16), home / "log"
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"]
    command += ["--ServerApp.ip=127.0.0.1", "--ServerApp.port=0", f"--ServerApp.root_dir={folder}"]
    command += [f"--IdentityProvider.token={token}"]
    with log.open("w") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env=variables(home)
        )
    try:
        found = wait_for(
            lambda: re.search(r"http://127\.0\.0\.1:(\d+)/lab", log.read_text()), 90, "JupyterLab"
        )
        yield lambda name: f"http://127.0.0.1:{found[1]}/lab/tree/{name}?token={token}&reset"
    finally:
        process.terminate()
        process.wait(30)
