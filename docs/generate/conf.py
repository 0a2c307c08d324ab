"""What Sphinx is told. Furo brings its own style sheets and scripts and asks for no font: the site works offline."""

from agentd import __version__

project = "agentd"
author = "the agentd maintainers"
project_copyright = "the agentd maintainers, Apache-2.0"
release = version = __version__
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
myst_heading_anchors = 4  # named as GitHub names them, so that one link serves both
html_theme = "furo"
html_title = f"agentd {__version__}"
html_show_sphinx = False
html_copy_source = False
html_show_sourcelink = False
html_static_path = ["static"]
html_css_files = ["site.css"]
pygments_style = "default"
smartquotes = False  # it would make one dash of the two that a flag begins with
