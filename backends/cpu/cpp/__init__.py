"""C++ on the host, with tiles and loops of our own headers."""
