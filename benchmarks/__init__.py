"""What ``make bench`` runs: `measure` takes the `cases` in turns, `table` prints what it found."""
