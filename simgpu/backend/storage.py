"""What stands for the storage of a simulated tensor."""


class SimStorage:
    """What `untyped_storage` of a simulated tensor returns: identity and size, no data."""

    def __init__(self, tensor, **options):
        if options:  # as PyTorch makes a storage of another device
            raise NotImplementedError(
                "the storage of a tensor on a simulated GPU has no bytes to copy, as async_save of "
                "torch.distributed.checkpoint does; use save"
            )
        self._block = tensor._block
        self.device = tensor.device
        self._name = tensor._device.name
        self._data = tensor._data

    def data_ptr(self) -> int:
        """Return the invented address (0 if empty); equal exactly for tensors that share memory."""
        return self._block.address if self._block.size else 0

    def nbytes(self) -> int:
        """Bytes of the storage, not rounded."""
        return self._block.size

    def resize_(self, num_bytes):
        """Give memory back, or take it again; tensors that share it keep sharing it."""
        if self._data.device.type != "meta":  # shapes may be those of other tensors, too
            self._data.untyped_storage().resize_(num_bytes)
        self._block.set_size(num_bytes)
        return self

    size = nbytes
    __len__ = nbytes

    def __repr__(self):
        return f"SimStorage({self._block.size} bytes, device={self._name!r})"
