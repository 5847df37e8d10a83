"""The page *How Far to Trust the Clock*; start reading in ``write.py``, its words are page.md."""
