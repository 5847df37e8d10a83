"""What chapters draw, time and compare, one module for each; what they teach stands in them."""
