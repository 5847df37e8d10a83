"""Set-up: clear messages where it cannot work, nothing done twice."""

import pytest

from tools import setup_env


@pytest.mark.parametrize("version", [(3, 9), (2, 7), (3, 14)])
def test_unsupported_python_is_named_with_the_remedy(version, capsys):
    with pytest.raises(SystemExit) as stop:
        setup_env.check_python(version)
    assert stop.value.code == 1
    message = capsys.readouterr().err
    assert "Python {}.{} is not supported".format(*version) in message
    assert "PYTHON=" in message


@pytest.mark.parametrize("version", [(3, 10), (3, 11), (3, 12), (3, 13)])
def test_supported_pythons_pass(version):
    setup_env.check_python(version)


def test_full_disk_is_noticed_before_anything_is_installed(capsys):
    with pytest.raises(SystemExit):
        setup_env.check_space(free=0.2e9)
    assert "only 0.2 GB are free" in capsys.readouterr().err
    setup_env.check_space(free=10e9)


@pytest.mark.parametrize(
    ("log", "hint"),
    [
        ("OSError: [Errno 28] No space left on device", "disk is full"),
        ("Temporary failure in name resolution", "registry cannot be reached"),
        ("(from versions: none)", "registry cannot be reached"),
        ("error: command 'gcc' failed", "last lines are above"),
    ],
)
def test_failure_of_pip_is_explained(log, hint):
    assert hint in setup_env.explain(log)


@pytest.fixture
def project(tmp_path, monkeypatch):
    for name in ("requirements.txt", "pyproject.toml"):
        (tmp_path / name).write_text("")
    (tmp_path / ".venv").mkdir()
    monkeypatch.chdir(tmp_path)
    calls = []
    monkeypatch.setattr(setup_env, "pip", lambda *arguments: calls.append(arguments))
    monkeypatch.setattr("venv.create", lambda folder, **options: calls.append((folder,)))
    return tmp_path, calls


def test_installed_environment_is_left_alone_until_the_pins_change(project):
    folder, calls = project
    setup_env.main()
    assert (".venv",) in calls
    assert ("-r", "requirements.txt") in calls
    calls.clear()
    setup_env.main()
    assert calls == []
    (folder / "requirements.txt").write_text("torch==9")
    setup_env.main()
    assert ("-r", "requirements.txt") in calls


def test_interrupted_installation_starts_again(project, monkeypatch):
    _, calls = project

    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(setup_env, "pip", interrupted)
    with pytest.raises(KeyboardInterrupt):
        setup_env.main()
    monkeypatch.setattr(setup_env, "pip", lambda *arguments: calls.append(arguments))
    setup_env.main()
    assert ("-r", "requirements.txt") in calls
