"""The plan language: pure and synchronous, text in and models out, with no I/O."""
