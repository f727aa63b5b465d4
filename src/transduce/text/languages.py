"""Codes of languages, such as "en", "pt-BR", "zh_Hans" and "deu_Latn": which of them name the same language."""

from collections.abc import Iterable
from pathlib import Path

# ISO 639: the code of two letters (639-1), followed by that of three (639-3).
_TABLE = (
    "aaaar ababk aeave afafr akaka amamh anarg arara asasm avava ayaym azaze babak bebel bgbul bibis bmbam bnben "
    "bobod brbre bsbos cacat ceche chcha cocos crcre csces cuchu cvchv cycym dadan dedeu dvdiv dzdzo eeewe elell "
    "eneng eoepo esspa etest eueus fafas ffful fifin fjfij fofao frfra fyfry gagle gdgla glglg gngrn guguj gvglv "
    "hahau heheb hihin hohmo hrhrv hthat huhun hyhye hzher iaina idind ieile igibo iiiii ikipk ioido isisl itita "
    "iuiku jajpn jvjav kakat kgkon kikik kjkua kkkaz klkal kmkhm knkan kokor krkau kskas kukur kvkom kwcor kykir "
    "lalat lbltz lglug lilim lnlin lolao ltlit lulub lvlav mgmlg mhmah mimri mkmkd mlmal mnmon mrmar msmsa mtmlt "
    "mymya nanau nbnob ndnde nenep ngndo nlnld nnnno nonor nrnbl nvnav nynya ococi ojoji omorm orori ososs papan "
    "pipli plpol pspus ptpor quque rmroh rnrun roron rurus rwkin sasan scsrd sdsnd sesme sgsag shhbs sisin skslk "
    "slslv smsmo snsna sosom sqsqi srsrp ssssw stsot susun svswe swswa tatam tetel tgtgk ththa titir tktuk tltgl "
    "tntsn toton trtur tstso tttat twtwi tytah uguig ukukr ururd uzuzb veven vivie vovol wawln wowol xhxho yiyid "
    "yoyor zazha zhzho zuzul "
    # The usual language of a macrolanguage has a code of its own, as in NLLB ("arb_Arab") and OPUS-MT ("cmn_Hans").
    "ararb ayayr azazj etekk fapes kukmr lvlvs mgplt mnkhk mszsm nenpi omgaz orory pspbt ququy sqals swswh uzuzn "
    "yiydd zhcmn"
)
_TWO_LETTERS = {entry[2:]: entry[:2] for entry in _TABLE.split()}


def without_region(code: str) -> str:
    """Returns the language of a code, without region and script, in two letters where it has such a code.

    "pt" of "pt-BR" and "PT_br", "de" of "deu_Latn", "ar" of "arb_Arab", "ceb" of "ceb".
    """
    language = _language(code)
    return _TWO_LETTERS.get(language, language)


def language_of(path: Path) -> str:
    """Returns "de" for `train.de` and `train.de.gz`, and "" if the name has no language code."""
    suffixes = [suffix[1:] for suffix in path.suffixes if suffix not in (".gz", ".zst")]
    last = suffixes[-1] if suffixes else ""
    return last if len(last) == 2 and last.isalpha() and last.isascii() and last.islower() else ""


def codes_meant(code: str, known: Iterable[str]) -> list[str]:
    """Returns the known codes that are meant by another one: one, none, or several that fit equally well.

    "de" in any case is meant by "de". If it is not known, it is by "deu" and by "deu_Latn", or, as the only one, by
    "de-AT". Where region or script are given, a code with the same ones comes first.
    """
    given = [*known]
    if code in given:  # as in the requests of a service
        return [code]
    names = {_spelling(each): each for each in given}
    wanted = _spelling(code)
    language, _, region = wanted.partition("-")
    for spelling in (wanted, language):
        if spelling in names:
            return [names[spelling]]
    same = {name: each for name, each in names.items() if without_region(name) == without_region(language)}
    nearest = [each for name, each in same.items() if name.partition("-")[2] == region]
    return nearest or [*same.values()]


def same_language(code: str, known: Iterable[str]) -> str:
    """Returns the known code that names the same language by its other code of ISO 639; else `code` itself.

    "de" is "deu" where that is known, or "deu_Latn" where that is the only one of German, and never "de-AT".
    """
    given = [*known]
    if code in given or not code:
        return code
    language = _language(code)
    found = [each for each in codes_meant(code, given) if _language(each) != language]
    return found[0] if len(found) == 1 else code


def _language(code: str) -> str:
    return _spelling(code).partition("-")[0]


def _spelling(code: str) -> str:
    return code.strip().replace("_", "-").lower()
