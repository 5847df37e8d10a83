"""The data of the book: Fashion-MNIST, or digits if it is unavailable; and a text."""

from d2lmini.data.fashion import FASHION_MNIST_CLASSES, fashion_mnist_labels
from d2lmini.data.idx import DataError
from d2lmini.data.loader import Batches, load_data_fashion_mnist
from d2lmini.data.text import load_text, text_batch, to_text

__all__ = [
    "FASHION_MNIST_CLASSES",
    "Batches",
    "DataError",
    "fashion_mnist_labels",
    "load_data_fashion_mnist",
    "load_text",
    "text_batch",
    "to_text",
]
