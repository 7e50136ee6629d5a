"""The command `qec`: the package for people at a terminal."""
