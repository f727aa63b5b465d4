"""The nouns and names of the English→German carrier phrases."""

from transduce.data.demo.slots import Pair, Slots, words

# Nouns as subjects: each with its article in the nominative.
EVENTS: list[Pair] = [
    ("meeting", "die Besprechung"),
    ("lecture", "der Vortrag"),
    ("concert", "das Konzert"),
    ("conference", "die Konferenz"),
    ("course", "der Kurs"),
    ("exam", "die Prüfung"),
    ("wedding", "die Hochzeit"),
    ("game", "das Spiel"),
    ("auction", "die Auktion"),
    ("exhibition", "die Ausstellung"),
]
WARES: list[Pair] = [
    ("book", "das Buch"),
    ("coat", "der Mantel"),
    ("lamp", "die Lampe"),
    ("bicycle", "das Fahrrad"),
    ("computer", "der Computer"),
    ("watch", "die Uhr"),
    ("table", "der Tisch"),
    ("painting", "das Gemälde"),
    ("room", "das Zimmer"),
    ("ticket", "die Karte"),
]
LOADS: list[Pair] = [
    ("suitcase", "der Koffer"),
    ("parcel", "das Paket"),
    ("box", "die Kiste"),
    ("bag", "die Tasche"),
    ("machine", "die Maschine"),
    ("dog", "der Hund"),
]
VEHICLES: list[Pair] = [
    ("train", "der Zug"),
    ("bus", "der Bus"),
    ("ferry", "die Fähre"),
    ("ship", "das Schiff"),
]
BUILDINGS: list[Pair] = [
    ("shop", "das Geschäft"),
    ("museum", "das Museum"),
    ("library", "die Bibliothek"),
    ("station", "der Bahnhof"),
    ("post office", "die Post"),
]
# Plurals, the same in nominative and accusative.
GOODS: list[Pair] = [
    ("books", "Bücher"),
    ("letters", "Briefe"),
    ("chairs", "Stühle"),
    ("tickets", "Karten"),
    ("cars", "Autos"),
    ("apples", "Äpfel"),
    ("photos", "Fotos"),
    ("bottles", "Flaschen"),
]
PEOPLE: list[Pair] = [
    ("students", "Schüler"),
    ("guests", "Gäste"),
    ("employees", "Angestellte"),
    ("children", "Kinder"),
    ("visitors", "Besucher"),
]
CITIES: list[Pair] = [
    ("Berlin", "Berlin"),
    ("Vienna", "Wien"),
    ("Munich", "München"),
    ("Cologne", "Köln"),
    ("Geneva", "Genf"),
    ("Prague", "Prag"),
    ("Rome", "Rom"),
]
NAMES = ("Anna", "Peter", "Maria", "Thomas", "Julia", "Paul", "Laura", "David")


def noun_slots() -> Slots:
    """`{Event}` starts the sentence, `{event}` stands within it; both carry their article."""
    slots: Slots = {"name": words([(name, name) for name in NAMES]), "city": words(CITIES)}
    slots |= {"goods": words(GOODS), "people": words(PEOPLE)}
    for name, nouns in (
        ("event", EVENTS),
        ("ware", WARES),
        ("load", LOADS),
        ("vehicle", VEHICLES),
        ("building", BUILDINGS),
    ):
        slots[name] = words([(f"the {english}", german) for english, german in nouns])
        slots[name.capitalize()] = words([(f"The {e}", g[0].upper() + g[1:]) for e, g in nouns])
    return slots
