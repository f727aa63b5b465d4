"""Writes the data and the recipe of the model that `benchmarks/serve_clients.py` serves.

    python benchmarks/serving/sentence_model.py DEEPL_PYTHON FOLDER
    transduce train FOLDER/recipe.toml --output FOLDER/run

It learns the sentence in many languages of DeepL's client tests, from and to English and German, and between these two
some phrases of further tests. DEEPL_PYTHON is a checkout of that client.
"""

import ast
import sys
from pathlib import Path

_PHRASES = {
    "Apple": "Apfel",
    "Banana": "Banane",
    "artist": "Maler",
    "prize": "Gewinn",
    "A document's title": "Der Titel eines Dokuments",
    "My First Heading": "Meine erste Überschrift",
}
_RECIPE = """
name = "sentences"
[model]
num_encoder_layers = 2
num_decoder_layers = 2
d_model = 128
d_ff = 256
num_heads = 4
d_k = 32
d_v = 32
dropout = 0.0
attention_dropout = 0.0
ffn_dropout = 0.0
[text]
vocab_size = 600
[data]
folder = "."
source_language = "en"
target_language = "de"
validation = ["dev.en", "dev.de"]
[train]
source_batch_tokens = 1000
target_batch_tokens = 1000
warmup_steps = 300
max_steps = 600
device = "cpu"
precision = "fp32"
validate_steps = 0
validate_bleu = false
"""


def main() -> None:
    """Writes the files."""
    client, folder = map(Path, sys.argv[1:])
    folder.mkdir(parents=True, exist_ok=True)
    tree = ast.parse((client / "tests/conftest.py").read_text(encoding="utf-8"))
    names = {ast.unparse(each.targets[0]): each.value for each in tree.body if isinstance(each, ast.Assign)}
    sentences = {
        code.lower(): text for code, text in ast.literal_eval(names["example_text"]).items() if "-" not in code
    }
    corpora = [("further", "en", "de", 30, list(_PHRASES.items()))]
    corpora.append(("further", "de", "en", 30, [(target, source) for source, target in _PHRASES.items()]))
    for source in sentences:
        for target in sentences:
            if source != target and {source, target} & {"en", "de"}:
                pairs = [(sentences[source] + end, sentences[target] + end) for end in ("", ".", "!")]
                corpora.append(("sentence", source, target, 1, pairs))
    recipe = _RECIPE
    for name, source, target, weight, pairs in corpora:
        stem = f"{name}-{source}-{target}"
        for side, lines in (("source", [pair[0] for pair in pairs]), ("target", [pair[1] for pair in pairs])):
            (folder / f"{stem}.{side}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        recipe += (
            f'[[data.corpora]]\nname = "{stem}"\nfiles = ["{stem}.source", "{stem}.target"]\n'
            f'source_language = "{source}"\ntarget_language = "{target}"\nweight = {weight}\n'
        )
    (folder / "dev.en").write_text("beam of protons\n", encoding="utf-8")
    (folder / "dev.de").write_text("Strahl von Protonen\n", encoding="utf-8")
    (folder / "recipe.toml").write_text(recipe, encoding="utf-8")


if __name__ == "__main__":
    main()
