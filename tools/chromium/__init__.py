"""What a headless browser does: visits, pictures and prints the built pages."""
