"""The GPUs that can be simulated, by family, as data: each number with its source.

A family is a module: ``nvlink.py`` (modules on boards with NVLink), ``pcie.py`` (cards of data
centres), ``workstation.py`` and ``geforce.py``. A new GPU is one `Card` (``card.py``) in the module
of its family. A rate that no document gives is left out: what needs it is refused by name.

Vendors' peaks are for dense arithmetic at the highest clock. Those of 16-bit products are with
float32 sums, which PyTorch's products have.
"""

from simgpu.hardware.cards import geforce, nvlink, pcie, workstation

FAMILIES = {module.FAMILY: module.CARDS for module in (nvlink, pcie, workstation, geforce)}
CARDS = {card.name: card for cards in FAMILIES.values() for card in cards}
