"""The README.md of an exported or imported folder: what it is, how it is used, and its certificate."""

from transduce.__about__ import __version__
from transduce.bundle import Bundle
from transduce.export.certificate import Certificate
from transduce.export.sentencepiece_files import opus_tag
from transduce.text.tags import source_tags
from transduce.translation.directions import Directions, default_target

_HUGGINGFACE = """```python
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("PATH_OF_THIS_FOLDER")
model = AutoModelForSeq2SeqLM.from_pretrained("PATH_OF_THIS_FOLDER")
batch = tokenizer(["…"], return_tensors="pt", padding=True, truncation=True)
print(tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True))
```

`generation_config.json` has the search; `transduce import PATH_OF_THIS_FOLDER --format huggingface --output MODEL`
leads back, also after fine-tuning."""

_ONNX = """```sh
pip install numpy onnxruntime tokenizers
echo "…" | python PATH_OF_THIS_FOLDER/translate_onnx.py
```

`encoder.onnx` reads a source once, `decoder.onnx` is a step with a cache of keys and values; both take their numbers
from `weights.bin`. `translate_onnx.py` is a whole beam search with them, to use or to learn from."""

_CTRANSLATE2 = """```python
import ctranslate2
from tokenizers import Tokenizer

tokenizer = Tokenizer.from_file("PATH_OF_THIS_FOLDER/tokenizer.json")
translator = ctranslate2.Translator("PATH_OF_THIS_FOLDER")
tokens = tokenizer.encode("…", add_special_tokens=False).tokens
written = translator.translate_batch([tokens])[0].hypotheses[0]
print(tokenizer.decode([tokenizer.token_to_id(token) for token in written], skip_special_tokens=False))
```"""

# In place of the lines of `tokenizers`, for a model with SentencePiece on each side.
_SENTENCEPIECE = {
    "onnx": _ONNX.replace("onnxruntime tokenizers", "onnxruntime sentencepiece"),
    "ctranslate2": """```python
import ctranslate2
import sentencepiece

source = sentencepiece.SentencePieceProcessor(model_file="PATH_OF_THIS_FOLDER/source.spm")
target = sentencepiece.SentencePieceProcessor(model_file="PATH_OF_THIS_FOLDER/target.spm")
translator = ctranslate2.Translator("PATH_OF_THIS_FOLDER")
tokens = source.encode("…", out_type=str)
written = translator.translate_batch([tokens])[0].hypotheses[0]
print(target.decode(written))
```""",
}

# Of a model of several target languages, in each format: `{tag}` is that of another than the default one. "marian" is
# transformers' tokenizer for SentencePiece on each side, which puts no tag in front of a source by itself.
_OTHER_TARGETS = {
    "huggingface": """```python
batch["input_ids"][:, 0] = tokenizer.convert_tokens_to_ids("{tag}")  # before `generate`
```""",
    "marian": """```python
batch = tokenizer(["{tag} …"], return_tensors="pt", padding=True, truncation=True)
```""",
    "onnx": """```sh
echo "…" | python PATH_OF_THIS_FOLDER/translate_onnx.py --target {language}
```""",
    "ctranslate2": """```python
written = translator.translate_batch([["{tag}", *tokens]])[0].hypotheses[0]
```""",
}

_USES = {"huggingface": _HUGGINGFACE, "onnx": _ONNX, "ctranslate2": _CTRANSLATE2}


def _of_targets(bundle: Bundle, format: str) -> str:
    """Returns how another target language is selected, where the model has several."""
    tokenizer = bundle.tokenizer
    if not tokenizer.target_languages:
        return ""
    if bundle.config.data.language_tags != "source":
        return _of_first_tokens(bundle)
    default = default_target(tokenizer, bundle)
    other = next((each for each in tokenizer.target_languages if each != default), default)
    [tag], names = source_tags(target_language=other), [*tokenizer.tags]
    if format == "huggingface" and not tokenizer.exact:
        format, tag, names = "marian", opus_tag(tag), [*map(opus_tag, names)]
    use = _OTHER_TARGETS[format].format(tag=tag, language=other)
    known = ", ".join(f"`{each}`" for each in names)
    has_default = format not in ("ctranslate2", "marian")
    needed = f" The default is `{default}`." if has_default else " Each source must begin with one."
    return f"""
Tags in front of a source say what is wanted: {known}.{needed} To ask for `{other}`:

{use}
"""


def _of_first_tokens(bundle: Bundle) -> str:
    """Returns how languages are selected, where the target's is the first token of the target."""
    direction = Directions.of(bundle.tokenizer, bundle).example()
    source = "".join(f'"{tag}", ' for tag in direction.tags)
    [target] = direction.target_tags
    known = ", ".join(f"`{each}`" for each in bundle.tokenizer.target_languages)
    return f"""
The first token of a target says which language it is in{" and that of a source, too" * bool(source)}: {known}. For
{direction.source or "a source"} → {direction.target}:

```python
written = translator.translate_batch([[{source}*tokens]], target_prefix=[["{target}"]])[0].hypotheses[0][1:]
```
"""


def export_card(bundle: Bundle, format: str, certificate: Certificate) -> str:
    """Returns the card as Markdown."""
    config = bundle.config
    languages = config.data.described_languages("source", "target")
    use = _USES[format] if bundle.tokenizer.exact else _SENTENCEPIECE.get(format, _USES[format])
    return f"""# {config.name}: {languages}

A Transformer trained with Transduce and exported by version {__version__}, format `{format}`.

## Use

{use}
{_of_targets(bundle, format)}
## Certificate

{certificate.to_markdown()}
`certificate.json` has the figures, the versions and the checksums.
"""
