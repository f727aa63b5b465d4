"""The language that a document names for itself follows the translation; others stay."""

import pytest

from made_documents import archive, member, run, translated, word
from text_engine import same
from transduce.translation.documents import Languages
from transduce.translation.documents.languages import followed

_EPUB = {
    "mimetype": "application/epub+zip",
    "META-INF/container.xml": '<container><rootfiles><rootfile full-path="b.opf"/></rootfiles></container>',
    "b.opf": '<package xmlns:dc="urn:dc"><metadata><dc:language>en-US</dc:language></metadata><manifest>'
    '<item href="a.html" media-type="application/xhtml+xml"/></manifest></package>',
    "a.html": '<html xml:lang="en" lang="en"><p>a dog</p></html>',
}


@pytest.mark.parametrize(
    ("code", "source", "target", "expected"),
    [
        ("en-US", "en", "de", "de"),
        ("EN", "eng_Latn", "deu_Latn", "de"),
        ("en", "en", "pt_BR", "pt-BR"),
        ("en", "en", "zh_Hans", "zh-Hans"),
        ("fr", "en", "de", "fr"),
        ("en", "", "de", "en"),
        ("en", "en", "", "en"),
        ("en-GB", "en", "en", "en-GB"),
    ],
)
def test_a_code_follows_that_of_the_translation(code: str, source: str, target: str, expected: str) -> None:
    assert followed(code, Languages(source, target)) == expected


@pytest.mark.parametrize("source", ["en", ""])  # unknown: that of the page
def test_a_page_names_the_language_of_its_translation(source: str) -> None:
    page = (
        "<html lang=en-US xml:lang='en'><meta http-equiv='Content-Language' content=\"en\"><p lang='fr'>le chien</p>"
        '<a hreflang="en" lang="EN">dog</a><script>x = \'<p lang="en">\'</script>'
    )
    expected = (
        "<html lang=de xml:lang='de'><meta http-equiv='Content-Language' content=\"de\"><p lang='fr'>LE CHIEN</p>"
        '<a hreflang="en" lang="de">DOG</a><script>x = \'<p lang="en">\'</script>'
    )
    assert translated(page.encode(), "a.html", languages=Languages(source, "de")).decode() == expected
    assert translated(page.encode(), "a.html", same).decode() == page


def test_a_book_names_the_language_of_its_translation() -> None:
    found = translated(archive(_EPUB), "a.epub", languages=Languages("en", "de"))
    assert "<dc:language>de</dc:language>" in member(found, "b.opf")
    assert member(found, "a.html") == '<html xml:lang="de" lang="de"><p>A DOG</p></html>'


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("de", '<w:lang w:val="de" w:eastAsia="ja-JP"/>'),
        ("ja", '<w:lang w:val="en-US" w:eastAsia="ja"/>'),
        ("ar", '<w:lang w:bidi="ar" w:val="en-US" w:eastAsia="ja-JP"/>'),
    ],
)
def test_a_letter_names_the_language_of_its_translation(target: str, expected: str) -> None:
    tag = '<w:lang w:val="en-US" w:eastAsia="ja-JP"/>'
    french = '<w:lang w:val="fr-FR"/>'
    body = f"<w:p>{run('a dog', tag)}{run(' cat', f'<w:b/>{french}')}</w:p>"
    given = word(body, styles=f"<w:docDefaults><w:rPrDefault><w:rPr>{tag}</w:rPr></w:rPrDefault></w:docDefaults>")
    found = translated(given, "a.docx", languages=Languages("en", target))
    for part in ("document", "styles"):
        assert expected in member(found, f"word/{part}.xml")
    assert french in member(found, "word/document.xml")


@pytest.mark.parametrize(
    ("code", "source", "expected"),
    [("", "", "pt_BR"), ("", "en", "pt_BR"), ("en_US", "en", "pt_BR"), ("fr", "en", "fr"), ("en", "", "en")],
)
def test_a_catalogue_names_the_language_of_its_translation(code: str, source: str, expected: str) -> None:
    header = 'msgid ""\nmsgstr ""\n"Project-Id-Version: x\\n"\n"Language: {}\\n"\n\n'
    entry = 'msgid "a dog"\nmsgstr "{}"\n'
    given = (header.format(code) + entry.format("")).encode()
    found = translated(given, "a.pot", languages=Languages(source, "pt-BR")).decode()
    assert found == header.format(expected) + entry.format("A DOG")
