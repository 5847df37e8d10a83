"""What every checker says of a solution that fails, does not end, or cannot be called."""

import contextlib
import signal
import threading
import time

import pytest
import torch
from support.samples.solutions import refuses

from d2lmini import sim
from d2lmini.checks import check_allreduce, check_split_batch, check_train_batch
from d2lmini.checks.concise import check_my_images, check_total_accuracy
from d2lmini.checks.overlap import check_run_steps
from d2lmini.checks.parallelism import check_run_any_graph
from d2lmini.checks.shared import time_limit
from d2lmini.training import allreduce, split_batch


def message_of(checker, solution):
    with pytest.raises(AssertionError) as caught:
        checker(solution)
    return str(caught.value), caught.value


def misspells(X, y, devices):
    size = len(X) // len(devices)
    return X.splitt(size), y


def test_an_error_is_shown_with_its_line_and_chained():
    text, error = message_of(check_split_batch, misspells)
    line = misspells.__code__.co_firstlineno + 2
    assert f"split_batch raised AttributeError in line {line} (`return X.splitt(size), y`)" in text
    assert "'Tensor' object has no attribute 'splitt'" in text
    assert isinstance(error.__cause__, AttributeError)


def test_the_line_is_the_readers_where_the_error_comes_from_a_library():
    def split(X, y, devices):
        return torch.cat([X, y]), y

    text, _ = message_of(check_split_batch, split)
    assert f"in line {split.__code__.co_firstlineno + 1} (`return torch.cat([X, y]), y`)" in text


def test_the_line_is_the_readers_where_the_function_is_decorated():
    @torch.no_grad()
    def split(X, y, devices):
        return X.splitt(2), y

    text, _ = message_of(check_split_batch, split)
    assert "(`return X.splitt(2), y`)" in text


def test_the_line_is_shown_where_the_error_comes_while_the_result_is_read():
    def shares(num_images, rank, world_size):
        yield num_images // rank

    text, _ = message_of(check_my_images, shares)
    assert "my_images raised ZeroDivisionError" in text
    assert "`yield num_images // rank`" in text


def test_an_assertion_of_the_reader_is_told_from_one_of_the_checker():
    def asserts(num_images, rank, world_size):
        assert rank > 0, "rank must be positive"

    def work_without_copies(graph, placement, work):
        return {task: work(task, []) for task in graph}

    text, error = message_of(check_my_images, asserts)
    assert "my_images raised AssertionError in line" in text
    assert "rank must be positive" in text
    assert error.__cause__ is not None
    text, error = message_of(check_run_any_graph, work_without_copies)
    assert text.startswith("the diamond: b got 0 inputs, not 1")
    assert error.__cause__ is None


@pytest.mark.parametrize(
    ("solution", "reason"),
    [
        (lambda X, y: None, r"split_batch\(X, y, devices\): too many positional arguments"),
        (lambda X, y, devices, k: None, "missing a required argument: 'k'"),
        (lambda X, y, devices: None, "returned None .is a `return` missing"),
        (lambda X, y, devices: split_batch, "returned a function .is a pair of brackets missing"),
        (lambda X, y, devices: len(None), "something is None; is a `return` missing in a function"),
        (split_batch(torch.zeros(2), torch.zeros(2), ["cpu"]), "given a tuple of 2; give it the"),
    ],
)
def test_a_call_that_cannot_work_is_explained(solution, reason):
    refuses(check_split_batch, solution, reason)


def test_a_checker_takes_the_solution_by_name_and_its_own_options():
    with pytest.raises(AssertionError, match="did not change"):
        check_train_batch(train_batch=lambda *args: None, tolerance=0.1)


def test_a_solution_that_makes_its_own_devices_is_refused():
    def on_own_devices(data):
        sim.configure(len(data))
        allreduce(data)

    refuses(check_allreduce, on_own_devices, "use the devices it is given")


def test_steps_without_end_are_refused_without_a_clock():
    def never_stops(step, num_steps, max_in_flight):
        while True:
            step().synchronize()

    refuses(check_run_steps, never_stops, "more steps were launched than the 10")


# ---- the time limit


def loops(correct, evaluated):
    while True:
        with contextlib.suppress(Exception):
            time.sleep(0.001)


alarms = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no alarms")


@alarms
def test_a_loop_without_end_is_stopped_and_shown(monkeypatch):
    monkeypatch.setattr(time_limit, "SECONDS", 0.2)
    before = signal.getsignal(signal.SIGALRM)
    text, _ = message_of(check_total_accuracy, loops)
    assert "total_accuracy does not end in line" in text
    assert "does a loop never stop?" in text
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


@alarms
def test_an_alarm_of_somebody_else_is_left_alone():
    signal.setitimer(signal.ITIMER_REAL, 1000)
    try:
        check_total_accuracy(lambda correct, evaluated: sum(correct) / sum(evaluated))
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def test_checkers_work_outside_the_main_thread(capsys):
    solution = lambda correct, evaluated: sum(correct) / sum(evaluated)  # noqa: E731
    thread = threading.Thread(target=check_total_accuracy, args=(solution,))
    thread.start()
    thread.join()
    assert capsys.readouterr().out == "total_accuracy: passed\n"
