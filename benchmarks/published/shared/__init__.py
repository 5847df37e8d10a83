"""What the families of tables share: rows, systems, models, and the ResNets that ranks run."""
