"""The command ``simgpu plan`` as a function."""

from simgpu.plan.options import make_parser
from simgpu.plan.step.job import PlanError


def predict(model, **options):
    """Return what a training step of a model takes, as ``simgpu plan`` prints it.

    Parameters
    ----------
    model : str
        A preset, or the path of a ``.json`` or ``.py`` file.
    **options
        The options of ``simgpu plan``, with underscores: ``gpus=64``, ``tp=8``,
        ``global_batch=256``, ``recompute="full"``; a switch such as ``compiled`` is True or False.
        None and False leave an option out.

    Returns
    -------
    Report
        Its ``step_time_seconds``, ``mfu_share``, ``peak_memory_bytes``, ``fits``, ``limit`` and so
        on; as a text, what the command prints. All of it is simulated.

    Raises
    ------
    PlanError
        If an option is unknown or options do not fit each other; a `ValueError` that names them and
        the remedy.

    Examples
    --------
    >>> found = predict("gpt2-124m", gpus=8, gpu="a100", micro_batch=4)
    >>> found.fits, found.tokens_per_step
    (True, 32768)
    """
    from simgpu.plan.command import report_of  # PyTorch's pipelines take a second to import

    words = []
    for name, value in options.items():
        if value is None or value is False:
            continue
        words.append(f"--{name.replace('_', '-')}")
        words += [] if value is True else [str(value)]
    parser = make_parser()

    def refuse(message):
        raise PlanError(message)

    parser.error = refuse
    return report_of(parser.parse_args([model, *words]))
