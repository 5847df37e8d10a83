"""Choose the precision of the computation."""

import contextlib

import torch


def choose_precision(device, asked="auto"):
    """Return the dtype to compute in, and why.

    bfloat16 is faster if the hardware multiplies it natively; otherwise it is emulated and slower.
    Weights, gradients and their sum over ranks stay float32 (`torch.autocast`).

    Even with float32, GPUs of compute capability 8.0 and later round the inputs of convolutions to
    TF32, unless ``torch.backends.cudnn.allow_tf32`` is False.

    Parameters
    ----------
    device : torch.device
        Device of the model.
    asked : {"auto", "float32", "bfloat16"}

    Returns
    -------
    dtype : torch.dtype
        ``torch.float32`` or ``torch.bfloat16``.
    reason : str

    Raises
    ------
    ValueError
        If `asked` is not one of the three.

    Examples
    --------
    >>> choose_precision(torch.device("cpu"), "float32")
    (torch.float32, 'float32 was asked for')
    """
    if asked in ("float32", "bfloat16"):
        return getattr(torch, asked), f"{asked} was asked for"
    if asked != "auto":
        raise ValueError(f"precision is {asked!r}; choose 'auto', 'float32' or 'bfloat16'")
    if device.type == "cuda":
        major, minor = torch.cuda.get_device_capability(device)
        name = f"a GPU of compute capability {major}.{minor}"
        has_units, units = major >= 8, "bfloat16 units (8.0 and later have)"
    else:
        capabilities = torch.cpu.get_capabilities()
        names = [n for n in ("amx_bf16", "avx512_bf16") if capabilities.get(n)]
        name, has_units, units = "this CPU", bool(names), " and ".join(names) or "bfloat16 units"
    if has_units:
        return torch.bfloat16, f"{name} has {units}"
    return torch.float32, f"{name} has no {units}"


def autocast(device, dtype):
    """Return a context in which operations run in `dtype` if that is safe.

    Examples
    --------
    >>> with autocast(torch.device("cpu"), torch.bfloat16):
    ...     (torch.ones(2, 2) @ torch.ones(2, 2)).dtype
    torch.bfloat16
    """
    if dtype == torch.float32:
        return contextlib.nullcontext()
    return torch.autocast(device.type, dtype)
