"""Puts our own SVG pictures into the page itself, so that their colours follow its light or dark theme."""

from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform


class InlinePictures(SphinxTransform):
    """Replaces images of docs/pictures by the SVG that they name."""

    default_priority = 500

    def apply(self) -> None:
        """Replaces them."""
        here = Path(self.env.doc2path(self.env.docname)).parent
        for image in list(self.document.findall(nodes.image)):
            path = (here / image["uri"]).resolve()
            if path.suffix == ".svg" and path.parent.name == "pictures":
                self.env.note_dependency(str(path))
                svg = path.read_text(encoding="utf-8")
                image.replace_self(nodes.raw("", f'<div class="picture">{svg}</div>', format="html"))


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers the transform."""
    app.add_transform(InlinePictures)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
