"""The notebook: magics, the panel, and the extension that brings both into a kernel."""
