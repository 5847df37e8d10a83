"""The functions of `torch.cuda` on simulated GPUs.

``table.py`` lists them by name. `torch.sim` consists of them, and while ``simgpu run`` runs a
script, they replace those of `torch.cuda`. One module a subject.
"""
