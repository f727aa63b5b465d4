"""The sentences to compare systems on: those of a file, the model's validation data, or a few built-in ones."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from transduce.config import Config, DataConfig
from transduce.config.corpora import HeldOutSetConfig
from transduce.data.corpus import Part, locate_validation
from transduce.data.readers import read_lines
from transduce.errors import DataError
from transduce.reporting.tables import counted
from transduce.text.languages import without_region

_T = TypeVar("_T")


@dataclass(frozen=True)
class Sentences:
    """Sources, and their reference translations where there are any."""

    origin: str  # where they come from, for the certificate
    sources: tuple[str, ...]
    references: tuple[str, ...] | None = None


def choose_sentences(
    config: Config, file: Path | None = None, references: Path | None = None, *, limit: int = 200
) -> Sentences:
    """Returns at most `limit` sentences, evenly spread over their source.

    Args:
        config: the model's; its validation data is used if no file is given and the data is still there.
        file: one sentence a line; lines of white space are skipped.
        references: their translations, line by line.
        limit: at least 1.

    Raises:
        DataError: a file is missing or has no sentences, or the two differ in their number of lines.
    """
    if limit < 1:
        raise DataError(f"{counted(limit, 'sentence')}: at least 1 is needed to compare anything.")
    if file is not None:
        return _from_files(file, references, limit)
    if references is not None:
        raise DataError(f"{references}: references of which sentences? Name their sources as well.")
    found = _from_validation(config, limit)
    if found is not None:
        return found
    language = without_region(config.data.source_language)
    language = language if language in _BUILT_IN else "en"
    origin = f"built-in sentences ({language}): the model's validation data is not here"
    return Sentences(origin, spread(_BUILT_IN[language], limit))


def _from_files(file: Path, references: Path | None, limit: int) -> Sentences:
    sources = list(read_lines(file))
    targets = list(read_lines(references)) if references is not None else sources
    if len(sources) != len(targets):
        raise DataError(
            f"{file} has {counted(len(sources), 'line')}, {references} has {len(targets):,}: one for each is needed."
        )
    pairs = [(source, target) for source, target in zip(sources, targets, strict=True) if source.strip()]
    if not pairs:
        raise DataError(f"{file}: has no sentences.")
    chosen, translations = zip(*spread(pairs, limit), strict=True)
    return Sentences(str(file), chosen, translations if references is not None else None)


def _from_validation(config: Config, limit: int) -> Sentences | None:
    part = validation_part(config.data)
    try:
        pairs = [pair for pair in part.open() if pair[0].strip()] if part is not None else []
    except (DataError, OSError):  # such as two files that differ in length: use built-in sentences
        return None
    if not pairs:
        return None
    sources, references = zip(*spread(pairs, limit), strict=True)
    names = _validation_sets(config.data)[0].files
    return Sentences(f"validation data ({', '.join(names)})", sources, references)


def validation_part(data: DataConfig, target: str = "") -> Part | None:
    """Returns a validation set in a target language; None where there is none, or it is not on this machine.

    The language is that of the default direction if none is given.
    """
    sets = _validation_sets(data, target)
    try:
        part = locate_validation(data).get(sets[0].name) if sets else None
    except DataError:  # a treebank that is not here
        return None
    if part is None:
        return None
    return part if all(os.access(path, os.R_OK) and path.is_file() for path in part.paths) else None


def _validation_sets(data: DataConfig, target: str = "") -> list[HeldOutSetConfig]:
    """Returns the validation sets, those in the target language first."""
    return sorted(data.validation_corpora, key=lambda each: each.target_language != (target or data.target_language))


def spread(items: Sequence[_T], limit: int) -> tuple[_T, ...]:
    """Returns at most `limit` of the items, evenly spread over them."""
    count = min(limit, len(items))
    return tuple(items[index * len(items) // count] for index in range(count))


_BUILT_IN: dict[str, tuple[str, ...]] = {
    "en": (
        "A dog runs across the wet grass.",
        "The train to the coast leaves at half past seven.",
        "She bought two loaves of bread, some cheese and a bottle of milk.",
        "Nobody knew why the lights had gone out.",
        "If it rains tomorrow, we will stay at home and read.",
        "The committee has not yet decided what to do about the bridge.",
        "Please send the signed form back before 31 March 2024.",
        "How long have you been waiting here?",
        "Prices rose by 3.5 percent, more than anyone had expected.",
        "A woman in a red coat is talking to two children near the fountain.",
        "The old library, which burned down in 1912, was never rebuilt.",
        '"We are late," he said, "but not too late."',
    ),
    "de": (
        "Ein Hund läuft über das nasse Gras.",
        "Der Zug an die Küste fährt um halb acht ab.",
        "Sie kaufte zwei Brote, etwas Käse und eine Flasche Milch.",
        "Niemand wusste, warum das Licht ausgegangen war.",
        "Wenn es morgen regnet, bleiben wir zu Hause und lesen.",
        "Der Ausschuss hat noch nicht entschieden, was mit der Brücke geschehen soll.",
        "Bitte schicken Sie das Formular vor dem 31. März 2024 zurück.",
        "Wie lange warten Sie schon hier?",
        "Die Preise stiegen um 3,5 Prozent, mehr als alle erwartet hatten.",
        "Eine Frau in einem roten Mantel spricht am Brunnen mit zwei Kindern.",
        "Die alte Bibliothek, die 1912 abbrannte, wurde nie wieder aufgebaut.",
        "„Wir sind spät dran“, sagte er, „aber nicht zu spät.“",
    ),
    "fr": (
        "Un chien court dans l'herbe mouillée.",
        "Le train pour la côte part à sept heures et demie.",
        "Elle a acheté deux pains, du fromage et une bouteille de lait.",
        "Personne ne savait pourquoi la lumière s'était éteinte.",
        "S'il pleut demain, nous resterons à la maison pour lire.",
        "Le comité n'a pas encore décidé ce qu'il fera du pont.",
        "Veuillez renvoyer le formulaire avant le 31 mars 2024.",
        "Depuis combien de temps attendez-vous ici ?",
        "Les prix ont augmenté de 3,5 %, plus que prévu.",
        "Une femme en manteau rouge parle à deux enfants près de la fontaine.",
        "L'ancienne bibliothèque, qui a brûlé en 1912, n'a jamais été reconstruite.",
        "« Nous sommes en retard », dit-il, « mais pas trop. »",
    ),
}
