"""Which programs make which documents: commands in a folder that has their sources."""

import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from programs import bilingual, texts

_SECONDS = 600  # for one program
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c4944415408d763f8cfc000000301010018dd8db0"
    "0000000049454e44ae426082"
)


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a program makes some documents."""

    program: str
    made: tuple[str, ...]  # paths in the folder
    commands: tuple[tuple[str, ...], ...]


def _pandoc(made: str, *options: str, source: str = "rich.md", read: str = "markdown") -> Recipe:
    return Recipe("pandoc", (made,), (("pandoc", "-f", read, source, "-o", made, *options),))


def _office(source: str, form: str, made: str, *, reader: str = "") -> Recipe:
    """Returns how LibreOffice converts a document, which it names after its source."""
    folder = made.replace(".", "-")
    read = (f"--infilter={reader}",) if reader else ()
    converted = f"{folder}/{Path(source).stem}{Path(made).suffix}"
    home = "-env:UserInstallation=file:///tmp/documents-of-programs-office"
    command = ("soffice", home, *read, "--headless", "--convert-to", form, "--outdir", folder, source)
    return Recipe("LibreOffice", (made,), (command, ("cp", converted, made)))


RECIPES = (
    _pandoc("pandoc.docx"),
    _pandoc("pandoc-contents.docx", "--toc", "--number-sections"),
    _pandoc("pandoc.odt"),
    _pandoc("pandoc2.epub", "-t", "epub2"),
    _pandoc("pandoc3.epub", "-t", "epub3", "--toc"),
    _pandoc("pandoc5.html", "-s", "-t", "html5", "--mathjax"),
    _pandoc("pandoc4.html", "-s", "-t", "html4", "--toc"),
    _pandoc("pandoc-slides.html", "-s", "-t", "revealjs"),
    _pandoc("pandoc.pptx"),
    _pandoc("pandoc-gfm.md", "-t", "gfm"),
    _pandoc("pandoc-commonmark.md", "-t", "commonmark_x"),
    _pandoc("pandoc-markdown.md", "-t", "markdown", "-s"),
    _pandoc("pandoc-extra.md", "-t", "markdown_phpextra"),
    _pandoc("pandoc-multi.md", "-t", "markdown_mmd"),
    _pandoc("pandoc-rst.md", "-t", "gfm", source="rich.rst", read="rst"),
    _pandoc("pandoc.txt", "-t", "plain"),
    _office("pandoc.docx", "odt", "office.odt"),
    _office("pandoc.docx", "ott", "office.ott"),
    _office("pandoc.odt", "docx:MS Word 2007 XML", "office.docx"),
    _office("pandoc.odt", "html", "office.html"),
    _office("pandoc.odt", "xhtml:XHTML Writer File", "office.xhtml"),
    _office("pandoc.odt", "epub", "office.epub"),
    _office("pandoc.odt", "txt:Text (encoded):UTF8", "office.txt"),
    _office("pandoc5.html", "odt", "office-page.odt", reader="HTML (StarWriter)"),
    _office("pandoc5.html", "docx:MS Word 2007 XML", "office-page.docx", reader="HTML (StarWriter)"),
    _office("pandoc.pptx", "odp", "office.odp"),
    _office("office.odp", "pptx", "office.pptx"),
    Recipe(
        "Sphinx",
        ("sphinx/html/index.html", "sphinx/html/second.html", "sphinx/html/genindex.html"),
        (("sphinx-build", "-q", "-b", "html", "sphinx/source", "sphinx/html"),),
    ),
    Recipe(
        "Sphinx",
        ("sphinx/epub/keep.epub",),
        (("sphinx-build", "-q", "-b", "epub", "sphinx/source", "sphinx/epub"),),
    ),
    Recipe(
        "Sphinx",
        ("sphinx/pot/index.pot", "sphinx/source/locale/de/LC_MESSAGES/index.po"),
        (
            ("sphinx-build", "-q", "-b", "gettext", "sphinx/source", "sphinx/pot"),
            ("sphinx-intl", "update", "-p", "sphinx/pot", "-l", "de", "-d", "sphinx/source/locale"),
        ),
    ),
    Recipe(
        "MkDocs",
        ("mkdocs/docs/index.md", "mkdocs/docs/guide.md", "mkdocs/site/index.html", "mkdocs/site/guide/index.html"),
        (("mkdocs", "build", "-q", "-f", "mkdocs/mkdocs.yml"),),
    ),
    Recipe(
        "gettext",
        ("keep.pot", "msginit.po", "msgmerge.po", "msgcat.po"),
        (
            ("xgettext", "-k_", "-kpgettext:1c,2", "-kngettext:1,2", "-cTRANSLATORS:", "--from-code=UTF-8",
             "-o", "keep.pot", "keep.c"),
            ("msginit", "--no-translator", "-l", "de.UTF-8", "-i", "keep.pot", "-o", "msginit.po"),
            ("msgmerge", "-q", "old.po", "keep.pot", "-o", "msgmerge.po"),
            ("msgcat", "--width=40", "--sort-output", "msginit.po", "-o", "msgcat.po"),
        ),
    ),
    Recipe(
        "Babel",
        ("babel.pot", "babel.po"),
        (
            ("pybabel", "-q", "extract", "-c", "Translators:", "-o", "babel.pot", "keep.py"),
            ("pybabel", "-q", "init", "-i", "babel.pot", "-l", "de", "-o", "babel.po"),
        ),
    ),
    Recipe(
        "translate-toolkit",
        ("po2xliff.xlf", "odf2xliff.xlf", "po2tmx.tmx", "html2po.po"),
        (
            ("po2xliff", "--progress=none", "msginit.po", "po2xliff.xlf"),
            ("odf2xliff", "--progress=none", "office.odt", "odf2xliff.xlf"),
            ("po2tmx", "--progress=none", "-l", "fr", "french.po", "po2tmx.tmx"),
            ("html2po", "--progress=none", "pandoc4.html", "html2po.po"),
        ),
    ),
    Recipe(
        "OmegaT",
        ("omegat/memory.tmx",),
        (
            ("omegat", "omegat", "--mode=console-createpseudotranslatetmx", "--pseudotranslatetmx=omegat/memory.tmx"),
            ("sed", "-i", "s/lang=.de[^>]*>/lang=\"fr\">/", "omegat/memory.tmx"),
        ),
    ),
    Recipe(
        "FFmpeg",
        ("ffmpeg.srt", "ffmpeg.vtt", "ffmpeg-styled.srt"),
        (
            ("ffmpeg", "-v", "error", "-y", "-i", "source.srt", "ffmpeg.srt"),
            ("ffmpeg", "-v", "error", "-y", "-i", "source.srt", "ffmpeg.vtt"),
            ("ffmpeg", "-v", "error", "-y", "-i", "source.ass", "ffmpeg-styled.srt"),
        ),
    ),
    Recipe("written as by Trados", ("trados.sdlxliff",), ()),
    Recipe("written as by memoQ", ("memoq.mqxliff",), ()),
    Recipe("written as by Phrase", ("phrase.mxliff",), ()),
    Recipe("written as by OmegaT", ("okapi.xlf",), ()),
    Recipe("written as by Poedit", ("poedit.po",), ()),
    Recipe("written as for Docusaurus", ("page.mdx",), ()),
)  # fmt: skip

_SOURCES: dict[str, str | bytes] = {
    "rich.md": texts.MARKDOWN,
    "rich.rst": texts.RST.split(".. function")[0].replace(".. toctree::\n\n   second\n", "").replace(":ref:", ""),
    "keep.png": PNG,
    "keep.c": texts.C,
    "keep.py": texts.PYTHON,
    "source.srt": texts.SRT,
    "source.ass": texts.ASS,
    "old.po": 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n"Language: de\\n"\n"Plural-Forms: '
    'nplurals=2; plural=(n != 1);\\n"\n\n#, c-format\nmsgid "The cat has %d balls and %s.\\n"\n'
    'msgstr "Keep %d und %s.\\n"\n\nmsgid "Gone"\nmsgstr "Keep"\n',
    "french.po": 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n"Language: fr\\n"\n\n'
    'msgid "The dog runs & sleeps"\nmsgstr "Keep"\n\nmsgid "A <b>boat</b>\\nin the harbour"\nmsgstr "Keep keep"\n',
    "sphinx/source/conf.py": "project = 'keep'\nauthor = 'Keep'\nlocale_dirs = ['locale']\nepub_show_urls = 'no'\n",
    "sphinx/source/index.rst": texts.RST,
    "sphinx/source/second.rst": texts.RST_SECOND,
    "sphinx/source/keep.png": PNG,
    "mkdocs/docs/index.md": texts.MKDOCS,
    "mkdocs/docs/guide.md": "# A heading\n\nThe words of [the page](index.md).\n\n## Another {: #keep }\n\n1. a step\n",
    "mkdocs/mkdocs.yml": "site_name: keep\nmarkdown_extensions: [admonition, footnotes, def_list, abbr, attr_list, "
    "tables, pymdownx.details, pymdownx.tabbed, pymdownx.superfences, pymdownx.keys]\n",
    "omegat/omegat.project": '<?xml version="1.0" encoding="UTF-8"?><omegat><project version="1.0"><source_dir>'
    "__DEFAULT__</source_dir><target_dir>__DEFAULT__</target_dir><tm_dir>__DEFAULT__</tm_dir><glossary_dir>"
    "__DEFAULT__</glossary_dir><dictionary_dir>__DEFAULT__</dictionary_dir><source_lang>en</source_lang>"
    "<target_lang>de</target_lang><sentence_seg>true</sentence_seg></project></omegat>",
    "omegat/source/page.html": "<html><body><p>The <b>dog</b> runs &amp; sleeps.</p><p>A boat.</p></body></html>",
    **{f"omegat/{name}/.keep": "" for name in ("target", "tm", "glossary", "dictionary", "omegat")},
    "trados.sdlxliff": b"\xef\xbb\xbf" + bilingual.TRADOS.encode(),
    "memoq.mqxliff": bilingual.MEMOQ,
    "phrase.mxliff": bilingual.PHRASE,
    "okapi.xlf": bilingual.OKAPI,
    "poedit.po": bilingual.POEDIT,
    "page.mdx": texts.MDX,
}  # fmt: skip


def make(folder: Path) -> Iterator[tuple[Recipe, str]]:
    """Makes all documents; yields each recipe, and why its program made none ("" where it did)."""
    for name, content in _SOURCES.items():
        (path := folder / name).parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    for recipe in RECIPES:
        yield recipe, next(filter(None, (_failure(command, folder) for command in recipe.commands)), "")


def _failure(command: Sequence[str], folder: Path) -> str:
    """Runs a command; returns what went wrong."""
    if shutil.which(command[0]) is None:
        return f"{command[0]} is not installed"
    try:
        run(command, folder)
    except (subprocess.SubprocessError, OSError) as error:
        return f"{' '.join(command)[:80]}: {getattr(error, 'stderr', '') or error}"[:300]
    return ""


def run(command: Sequence[str], folder: Path) -> str:
    """Runs a command in a folder, and returns what it prints.

    Raises:
        subprocess.SubprocessError: it fails, or takes too long.
    """
    print(f"  {' '.join(command)[:100]}", file=sys.stderr, flush=True)
    done = subprocess.run(command, cwd=folder, check=True, timeout=_SECONDS, capture_output=True, text=True)
    return done.stdout + done.stderr
