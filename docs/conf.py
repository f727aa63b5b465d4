"""The site's settings. `make docs` builds it from the repository's root, so that links work as they do on GitHub."""

import sys
from pathlib import Path

from transduce.__about__ import __version__

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "Transduce"
author = "The Transduce maintainers"
version = release = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "docstrings",
    "generated",
    "mathml",
    "offline",
    "pictures",
    "source_pages",
]
root_doc = "docs/index"
include_patterns = [
    "docs/**",
    "benchmarks/**.md",
    "experiments/**.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
]
exclude_patterns = [".*", "build", "data", "dist", "docs/_*", "models", "recipes", "runs", "src", "tests"]

# Markdown
myst_enable_extensions = ["attrs_block", "colon_fence", "dollarmath"]
myst_heading_anchors = 4
html_math_renderer = "mathml"

# The notebook is run at each build; an error in it fails the build.
nb_execution_mode = "force"
nb_execution_timeout = 900  # a cell, on a busy machine
nb_execution_raise_on_error = True
nb_merge_streams = True

# Docstrings
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
default_role = "code"
python_use_unqualified_type_names = True
maximum_signature_line_length = 100
add_module_names = False

# Looks
html_theme = "furo"
html_title = f"Transduce {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_extra_path = ["_extra"]
html_show_sourcelink = False
html_show_copyright = False
html_copy_source = False
html_use_index = False
html_domain_indices = False
html_theme_options = {"navigation_with_keys": True}
pygments_style = "friendly"
pygments_dark_style = "monokai"
