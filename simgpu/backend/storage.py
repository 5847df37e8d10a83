"""The storage of a simulated tensor, which holds no data."""


class SimStorage:
    """The `untyped_storage` of a simulated tensor: identity and size, no data."""

    def __init__(self, tensor, **options):
        if options:  # PyTorch passes some to make a storage on another device
            raise NotImplementedError(
                "cannot copy the storage of a tensor on a simulated GPU, which has no data; copy "
                "the tensor"
            )
        self._block = tensor._block
        self.device = tensor.device
        self._name = tensor._device.name
        self._data = tensor._data

    def data_ptr(self) -> int:
        """Return the synthetic address (0 if empty), which tensors with shared memory share."""
        return self._block.address if self._block.size else 0

    def nbytes(self) -> int:
        """Return the bytes of the storage, not rounded."""
        return self._block.size

    def resize_(self, num_bytes):
        """Free memory, or allocate it again; tensors that share it keep sharing it."""
        if self._data.device.type != "meta":  # other tensors may have the same meta tensor
            self._data.untyped_storage().resize_(num_bytes)
        self._block.set_size(num_bytes)
        return self

    size = nbytes
    __len__ = nbytes

    def __repr__(self):
        return f"SimStorage({self._block.size} bytes, device={self._name!r})"


class TypedSimStorage:
    """A storage counted in elements, with the names by which PyTorch's own code calls it."""

    def __init__(self, tensor):
        self._bytes, self._width = tensor.untyped_storage(), tensor.element_size()

    def _size(self) -> int:
        """Return the number of elements."""
        return self._bytes.nbytes() // self._width

    def _resize_(self, elements):
        """Free memory, or allocate it again, as `SimStorage.resize_`."""
        self._bytes.resize_(elements * self._width)
