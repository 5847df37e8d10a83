"""Import torchvision, also where its compiled operators do not fit the installed torch.

The registry's torchvision wheel is compiled for CUDA. Beside a CPU build of torch its operators
cannot be loaded, and ``import torchvision`` stops at "operator torchvision::nms does not exist",
although data sets, transforms and models need none of them. Declaring the two missing schemas is
enough. This is the one place that does so: import torchvision from here, ``from
benchmarks.import_torchvision import torchvision``.
"""

import torch

# Kept for the life of the process: the declarations vanish with the object.
_declared = None


def _declare_missing_operators():
    """Declare the schemas (no implementation: calling them is still an error)."""
    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return library


try:
    import torchvision
except RuntimeError as error:
    # Declare only after the failure: where the operators do load, a second declaration would abort.
    if torch.version.cuda is not None or "torchvision::nms" not in str(error):
        raise
    _declared = _declare_missing_operators()
    import torchvision

__all__ = ["torchvision"]
