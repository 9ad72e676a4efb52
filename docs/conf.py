"""How Sphinx builds these pages."""

from __future__ import annotations

from planbench import __version__

project = "planbench"
author = "The planbench developers"
copyright = "2026, The planbench developers"
release = version = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"
autoclass_content = "class"
napoleon_google_docstring = True

html_theme = "alabaster"
html_title = "planbench"
html_theme_options = {
    "description": "Plans of tool calls in Jupyter: drawn, checked, run and kept",
    "fixed_sidebar": True,
    "page_width": "1080px",
}
html_show_sourcelink = False
