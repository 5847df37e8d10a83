"""The book's drawings: short scripts that write SVG files into ``chapters/img``."""

from tools.figures.catalogue import FIGURES, IMAGE_DIR, render_all

__all__ = ["FIGURES", "IMAGE_DIR", "render_all"]
