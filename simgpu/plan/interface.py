"""The command ``simgpu plan`` as a function."""


def plan(model, **options):
    """Return what a training step of a model takes on many GPUs, as ``simgpu plan`` prints it.

    Also callable as ``simgpu.plan(...)``.

    Parameters
    ----------
    model : str or path-like
        A preset, or the path of a ``.json`` or ``.py`` file.
    **options
        The options of ``simgpu plan``, with underscores, such as ``gpus=64``, ``gpu="h100"``,
        ``tp=8``, ``global_batch=256``, ``recompute="full"``, ``compiled=True``: the fields of
        `simgpu.plan.request.Hardware`, `simgpu.plan.plans.Plan`,
        `simgpu.plan.request.Workload` and `simgpu.plan.prices.Money`. None: the default.

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
    >>> import simgpu
    >>> report = simgpu.plan("gpt2-124m", gpus=8, gpu="a100", micro_batch=4)
    >>> report.fits, report.tokens_per_step
    (True, 32768)
    """
    # PyTorch's pipelines take a second to import.
    from simgpu.plan.report import report_of
    from simgpu.plan.request import make_request

    return report_of(make_request(model, **options))
