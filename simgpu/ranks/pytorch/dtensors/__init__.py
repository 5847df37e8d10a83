"""DTensor and FSDP2 on ranks: ``dtensor.py`` says what is replaced, the others what ranks share."""
