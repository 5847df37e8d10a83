"""Run `simgpu check` in the process of the tests."""

import json

import pytest

from simgpu.check.command import main


@pytest.fixture
def simgpu_check(own_process, tmp_path, capsys):
    """Run `simgpu check` on a script or its source; return code, output, report as a dict."""

    def run(source, *options, args=(), gpus=2):
        path = source
        if not hasattr(source, "read_text"):
            path = tmp_path / "train.py"
            path.write_text(source, encoding="utf-8")
        report = tmp_path / "report.json"
        report.unlink(missing_ok=True)
        words = ["--nproc-per-node", str(gpus), "--json", str(report), *options, str(path), *args]
        code = main(words)
        found = json.loads(report.read_text(encoding="utf-8")) if report.exists() else None
        return code, capsys.readouterr(), found

    return run
