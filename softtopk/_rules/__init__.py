"""The derivatives at a solved row, written once for every library."""
