"""``python -m d2lmini.data``: download the data now and print where they come from."""

import sys

from d2lmini.data.idx import DataError
from d2lmini.data.loader import load_data_fashion_mnist

if __name__ == "__main__":
    try:
        load_data_fashion_mnist(256)
    except DataError as error:
        sys.exit(f"data: {error}")
