"""Languages: English names of codes, other spellings of codes, and the served language that a client means."""

import re
from collections.abc import Collection, Sequence

from transduce.serve.models import ServedPair
from transduce.text.languages import without_region

# ISO 639-1, and some codes of three letters that translators are made for.
_TABLE = (
    "aa Afar|ab Abkhazian|ae Avestan|af Afrikaans|ak Akan|am Amharic|an Aragonese|ar Arabic|as Assamese|av Avaric"
    "|ay Aymara|az Azerbaijani|ba Bashkir|be Belarusian|bg Bulgarian|bi Bislama|bm Bambara|bn Bengali|bo Tibetan"
    "|br Breton|bs Bosnian|ca Catalan|ce Chechen|ch Chamorro|co Corsican|cr Cree|cs Czech|cu Church Slavonic"
    "|cv Chuvash|cy Welsh|da Danish|de German|dv Divehi|dz Dzongkha|ee Ewe|el Greek|en English|eo Esperanto"
    "|es Spanish|et Estonian|eu Basque|fa Persian|ff Fulah|fi Finnish|fj Fijian|fo Faroese|fr French"
    "|fy Western Frisian|ga Irish|gd Scottish Gaelic|gl Galician|gn Guarani|gu Gujarati|gv Manx|ha Hausa|he Hebrew"
    "|hi Hindi|ho Hiri Motu|hr Croatian|ht Haitian Creole|hu Hungarian|hy Armenian|hz Herero|ia Interlingua"
    "|id Indonesian|ie Interlingue|ig Igbo|ii Sichuan Yi|ik Inupiaq|io Ido|is Icelandic|it Italian|iu Inuktitut"
    "|ja Japanese|jv Javanese|ka Georgian|kg Kongo|ki Kikuyu|kj Kuanyama|kk Kazakh|kl Kalaallisut|km Khmer"
    "|kn Kannada|ko Korean|kr Kanuri|ks Kashmiri|ku Kurdish|kv Komi|kw Cornish|ky Kyrgyz|la Latin|lb Luxembourgish"
    "|lg Ganda|li Limburgish|ln Lingala|lo Lao|lt Lithuanian|lu Luba-Katanga|lv Latvian|mg Malagasy|mh Marshallese"
    "|mi Maori|mk Macedonian|ml Malayalam|mn Mongolian|mr Marathi|ms Malay|mt Maltese|my Burmese|na Nauru"
    "|nb Norwegian Bokmål|nd North Ndebele|ne Nepali|ng Ndonga|nl Dutch|nn Norwegian Nynorsk|no Norwegian"
    "|nr South Ndebele|nv Navajo|ny Nyanja|oc Occitan|oj Ojibwa|om Oromo|or Odia|os Ossetic|pa Punjabi|pi Pali"
    "|pl Polish|ps Pashto|pt Portuguese|qu Quechua|rm Romansh|rn Rundi|ro Romanian|ru Russian|rw Kinyarwanda"
    "|sa Sanskrit|sc Sardinian|sd Sindhi|se Northern Sami|sg Sango|sh Serbo-Croatian|si Sinhala|sk Slovak"
    "|sl Slovenian|sm Samoan|sn Shona|so Somali|sq Albanian|sr Serbian|ss Swati|st Southern Sotho|su Sundanese"
    "|sv Swedish|sw Swahili|ta Tamil|te Telugu|tg Tajik|th Thai|ti Tigrinya|tk Turkmen|tl Tagalog|tn Tswana"
    "|to Tongan|tr Turkish|ts Tsonga|tt Tatar|tw Twi|ty Tahitian|ug Uyghur|uk Ukrainian|ur Urdu|uz Uzbek|ve Venda"
    "|vi Vietnamese|vo Volapük|wa Walloon|wo Wolof|xh Xhosa|yi Yiddish|yo Yoruba|za Zhuang|zh Chinese|zu Zulu"
    "|ast Asturian|ceb Cebuano|ckb Central Kurdish|dsb Lower Sorbian|fil Filipino|hsb Upper Sorbian|yue Cantonese"
)
_MANY = 8  # languages between all of which a model translates that are listed as a group, and not as pairs
_NAMES = dict(re.findall(r"(\w+) ([^|]+)", _TABLE))
_REGIONS = {
    "419": "Latin America",
    "at": "Austria",
    "br": "Brazil",
    "ca": "Canada",
    "ch": "Switzerland",
    "cn": "China",
    "cyrl": "Cyrillic",
    "es": "Spain",
    "fr": "France",
    "gb": "United Kingdom",
    "hans": "Simplified",
    "hant": "Traditional",
    "hk": "Hong Kong",
    "latn": "Latin",
    "mx": "Mexico",
    "pt": "Portugal",
    "tw": "Taiwan",
    "us": "United States",
}
# Codes that clients use for another one: LibreTranslate's pb and zt, older ones of ISO 639, regions for scripts.
_ALIASES = {
    "in": "id",
    "iw": "he",
    "ji": "yi",
    "jw": "jv",
    "pb": "pt-br",
    "zh": "zh-hans",
    "zh-cn": "zh-hans",
    "zh-hk": "zh-hant",
    "zh-sg": "zh-hans",
    "zh-tw": "zh-hant",
    "zt": "zh-hant",
}


def base_language(code: str) -> str:
    """Returns the language of a code, without region and script: "pt" of "pt-BR" and of "pb"."""
    return canonical(code).partition("-")[0]


def canonical(code: str) -> str:
    """Returns one spelling of all that mean the same: "pt-br" of "PT_BR" and of "pb", "de-latn" of "deu_Latn"."""
    language, dash, region = code.strip().replace("_", "-").lower().partition("-")
    code = f"{without_region(language)}{dash}{region}"
    return _ALIASES.get(code, code)


def language_name(code: str) -> str:
    """Returns the English name of a language, such as "Portuguese (Brazil)"; an unknown code is its own name."""
    base, _, region = canonical(code).partition("-")
    if base not in _NAMES:
        return code
    return f"{_NAMES[base]} ({_REGIONS.get(region, region.upper())})" if region else _NAMES[base]


def served_language(code: str, served: Collection[str]) -> str | None:
    """Returns the served code that a client means by `code`, or None.

    That is the code itself in any case, or another spelling of it. If there is none, it is the language without its
    region ("en" for "en-US"), or with one ("en-GB" for "en"). The two scripts of Chinese never match each other.
    """
    if code in served:
        return code
    by_spelling = {canonical(each): each for each in sorted(served, reverse=True)}
    wanted = canonical(code)
    while wanted not in by_spelling and wanted.count("-") > 1:  # "zh-Hant-TW" is "zh-Hant"
        wanted = wanted.rpartition("-")[0]
    if wanted in by_spelling:
        return by_spelling[wanted]
    base = wanted.partition("-")[0]
    if base in by_spelling:
        return by_spelling[base]
    if base == "zh":
        return None
    return next((each for each in sorted(served) if base_language(each) == base and base), None)


def grouped(pairs: Sequence[ServedPair]) -> tuple[list[ServedPair], list[tuple[list[str], ServedPair]]]:
    """Returns the pairs that have to be listed one by one, and groups: languages, and what any two of them share.

    A model of 200 languages would else be 39,800 pairs.
    """
    by_model: dict[tuple[object, ...], list[ServedPair]] = {}
    for each in pairs:
        by_model.setdefault(_shared(each), []).append(each)
    groups: dict[tuple[object, ...], tuple[list[str], ServedPair]] = {}
    for shared, found in by_model.items():
        languages = sorted({code for each in found for code in (each.source, each.target)})
        if len(languages) >= _MANY and len(found) == len(languages) * (len(languages) - 1):
            groups[shared] = (languages, found[0])
    return [each for each in pairs if _shared(each) not in groups], [*groups.values()]


def _shared(pair: ServedPair) -> tuple[object, ...]:
    return pair.model, pair.via, pair.attention, pair.zero_shot, pair.domains
