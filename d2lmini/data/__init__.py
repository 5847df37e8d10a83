"""The data of the book: Fashion-MNIST in memory, or handwritten digits if it is unavailable."""

from d2lmini.data.fashion import FASHION_MNIST_CLASSES, fashion_mnist_labels
from d2lmini.data.idx import DataError
from d2lmini.data.loader import Batches, load_data_fashion_mnist

__all__ = [
    "FASHION_MNIST_CLASSES",
    "Batches",
    "DataError",
    "fashion_mnist_labels",
    "load_data_fashion_mnist",
]
