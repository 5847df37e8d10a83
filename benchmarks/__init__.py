"""What ``make bench`` runs: `measure` takes the `cases` in turns, `records` keeps what it found."""
