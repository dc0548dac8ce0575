"""The site's settings for Sphinx; `python docs/site/build.py` (or `make docs`) gathers the pages and runs it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "site"))

import facula  # noqa: E402

project = "Facula"
version = release = facula.__version__.partition("+facula")[2]  # behind the version of PyTorch whose names it has
copyright = "the authors of Facula"
extensions = ["myst_parser", "pages"]
source_suffix = {".md": "markdown"}
root_doc = "index"
nitpicky = True
smartquotes = False  # docstrings quote code

myst_enable_extensions = ["colon_fence", "attrs_block"]
myst_heading_anchors = 4

html_theme = "furo"
html_title = f"Facula {version}"
html_static_path = [str(Path(__file__).parent / "site" / "static")]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_use_index = False
html_domain_indices = False
toc_object_entries = True
toc_object_entries_show_parents = "hide"
python_maximum_signature_line_length = 100
pygments_style = "friendly"
pygments_dark_style = "monokai"


def setup(app):
    app.config.html_static_path.append(str(Path(app.srcdir) / "_static"))  # the table of names, which stage.py makes
