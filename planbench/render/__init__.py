"""Plans and runs as pictures and pages: DOT, SVG, text and HTML."""
