"""The language that a document names for itself follows the translation; others stay."""

import pytest

from made_documents import archive, member, run, translated, word
from text_engine import same
from transduce.errors import ConfigError
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


XLIFF = (
    '<xliff version="{}"{}><file original="a"{}><unit id="1"><segment><source>a dog</source></segment></unit>'
    '<trans-unit id="1"><source>a dog</source></trans-unit></file></xliff>'
)


@pytest.mark.parametrize(
    ("name", "document", "declared"),
    [
        ("a.html", '<html lang="fr-CA"><p>a dog</p></html>', "the source 'fr-CA'"),
        ("a.html", '<html lang="EN-us"><p lang="fr">a dog</p></html>', ""),
        ("a.html", '<html lang="und"><p>a dog</p></html>', ""),
        ("a.html", "<html><p>a dog</p></html>", ""),
        ("a.po", 'msgid ""\nmsgstr "Language: fr\\n"\n\nmsgid "a dog"\nmsgstr ""\n', "the target 'fr'"),
        ("a.po", 'msgid ""\nmsgstr "Language: de_AT\\n"\n\nmsgid "a dog"\nmsgstr ""\n', ""),
        ("a.po", 'msgid ""\nmsgstr "Language: en\\n"\n\nmsgid "a dog"\nmsgstr ""\n', ""),
        (
            "a.xlf",
            XLIFF.format("1.2", "", " source-language='fr' target-language='it'"),
            "the source 'fr' and the target 'it'",
        ),
        ("a.xlf", XLIFF.format("1.2", "", ' source-language="en-US"'), ""),
        ("a.xlf", XLIFF.format("2.0", ' srcLang="en" trgLang="it"', ""), "the source 'en' and the target 'it'"),
        ("a.xlf", XLIFF.format("2.0", ' srcLang="eng" trgLang="DE-de"', ""), ""),
        (
            "a.xlf",
            XLIFF.format("1.2", "", ' source-language="en"').replace("</xliff>", "")
            + '<file original="b" source-language="en" target-language="it"></file></xliff>',
            "the source 'en' and the target 'it'",
        ),
        ("a.arb", '{"@@locale": "fr_CA", "dog": "a dog"}', "the source 'fr_CA'"),
        ("a.arb", '{"@@locale": "en_US", "dog": "a dog"}', ""),
    ],
)
def test_a_document_of_other_languages_than_the_model_is_named(name: str, document: str, declared: str) -> None:
    warnings: list[str] = []
    translated(document.encode(), name, languages=Languages("en", "deu_Latn"), warn=warnings.append)
    assert warnings == (
        [
            f"{name}: declares {declared}, but is translated from 'en' to 'deu_Latn'. "
            "Use a model of its languages, or correct what it declares."
        ]
        if declared
        else []
    )
    warnings.clear()
    translated(document.encode(), name, languages=Languages(), warn=warnings.append)
    assert not warnings


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


@pytest.mark.parametrize(("codes", "warned"), [(("fr",), True), (("fr", "en-GB"), False)])
def test_a_book_of_another_language_than_the_model_is_named(codes: tuple[str, ...], warned: bool) -> None:
    metadata = "".join(f"<dc:language>{code}</dc:language>" for code in codes)
    book = _EPUB | {"b.opf": _EPUB["b.opf"].replace("<dc:language>en-US</dc:language>", metadata)}
    warnings: list[str] = []
    translated(archive(book), "a.epub", languages=Languages("en", "de"), warn=warnings.append)
    assert [each.partition(", but")[0] for each in warnings] == ["a.epub: declares the source 'fr'"] * warned


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        (
            ("fr", "it"),
            ["a.tmx: declares the source 'fr'", "a.tmx: has no text that is to be translated: copied as it is."],
        ),
        (("fr", "EN-us"), []),
    ],
)
def test_a_memory_without_the_language_of_the_model_is_named(codes: tuple[str, ...], expected: list[str]) -> None:
    texts = "".join(f'<tuv xml:lang="{code}"><seg>a dog</seg></tuv>' for code in codes)
    memory = f'<tmx version="1.4"><header srclang="fr"/><body><tu>{texts}</tu></body></tmx>'
    warnings: list[str] = []
    translated(memory.encode(), "a.tmx", languages=Languages("en", "de"), warn=warnings.append)
    assert [each.partition(", but")[0] for each in warnings] == expected


def test_what_documents_are_to_name_is_a_code() -> None:
    with pytest.raises(
        ConfigError, match=r"^languages\.target 'de\" x' is not a language code, such as en or pt-BR\.$"
    ):
        translated(b"a dog", "a.txt", languages=Languages("en", 'de" x'))
