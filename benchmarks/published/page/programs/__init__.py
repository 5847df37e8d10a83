"""What the page says of programs that run by themselves: pairs, and runs to repeat."""
