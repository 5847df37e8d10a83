"""``python -m d2lmini.data``: fetch the data now and say where they come from."""

from d2lmini.data.loader import load_data_fashion_mnist

if __name__ == "__main__":
    load_data_fashion_mnist(256)
