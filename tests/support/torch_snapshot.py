"""What PyTorch's modules and classes are, to find what stays replaced behind a run."""

import sys
import types

# What PyTorch cannot take back: the name of the device type, and a module that it imports late.
STAYS = {
    ("torch.utils.backend_registration", "_privateuse1_backend_name"),
    ("torch._opaque_base", "_FakeScriptObject_cls"),
    *((f"torch._C.{kind}", what) for kind in ("_profiler:ProfilerActivity", "_autograd:DeviceType")
      for what in ("__repr__", "__str__", "name")),
}  # fmt: skip


def snapshot() -> dict:
    """Return all attributes of PyTorch's modules, and of the classes in them, by name."""
    found = {}
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] != "torch" or not isinstance(module, types.ModuleType):
            continue
        for key, value in list(vars(module).items()):
            found[name, key] = value
            if isinstance(value, type) and str(value.__module__).startswith("torch"):
                for inner, attribute in list(vars(value).items()):
                    found[f"{value.__module__}:{value.__qualname__}", inner] = attribute
    return found


def changed(before) -> list:
    """Return the names whose values are others than in a snapshot."""
    after = snapshot()
    return sorted(key for key, value in before.items() if after.get(key) is not value)
