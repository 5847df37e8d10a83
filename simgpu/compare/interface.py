"""The command ``simgpu compare`` as a function."""


def compare(
    model, *, tokens_per_second=None, step_time=None, mfu=None, try_changes=False, **options
):
    """Return a comparison of a run with published ones and with the simulated one.

    Also callable as ``simgpu.compare(...)``.

    Parameters
    ----------
    model : str or path-like
        A preset, or the path of a ``.json`` file.
    tokens_per_second : float, optional
        Of all GPUs. Give this, `step_time` or `mfu`: one number that the run reached.
    step_time : float, optional
        Seconds.
    mfu : float, optional
        Per cent, without recomputation.
    try_changes : bool
        Simulate changes of the options, too; this takes several times as long.
    **options
        As for `simgpu.plan`: how the run is configured.

    Returns
    -------
    Comparison
        Its ``verdict``, ``report`` (what is simulated), ``published`` and so on; as a text, what
        the command prints.

    Raises
    ------
    PlanError
        If a number or an option is not valid; a `ValueError` that names it and the remedy.

    Examples
    --------
    >>> import simgpu
    >>> how = {"gpus": 8, "gpu": "a100", "micro_batch": 4}
    >>> comparison = simgpu.compare("gpt2-124m", tokens_per_second=1_000_000, **how)
    >>> comparison.verdict.partition(":")[0]
    'reasonable'
    """
    # PyTorch's pipelines take a second to import.
    from simgpu.compare.comparison import compare_run
    from simgpu.plan.request import make_request

    reached = {"tokens_per_second": tokens_per_second, "step_time": step_time, "mfu": mfu}
    return compare_run(make_request(model, **options), reached, try_changes)
