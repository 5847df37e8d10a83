"""What a rank's time goes to (``shares.py``), and for whom ranks wait (``waited.py``)."""
