"""The README.md of an exported or imported folder: what it is, how it is used, and its certificate."""

from transduce.__about__ import __version__
from transduce.bundle import Bundle
from transduce.export.certificate import Certificate

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

_USES = {"huggingface": _HUGGINGFACE, "onnx": _ONNX, "ctranslate2": _CTRANSLATE2}


def export_card(bundle: Bundle, format: str, certificate: Certificate) -> str:
    """Returns the card as Markdown."""
    config = bundle.config
    languages = f"{config.data.source_language or 'source'} → {config.data.target_language or 'target'}"
    return f"""# {config.name}: {languages}

A Transformer trained with Transduce and exported by version {__version__}, format `{format}`.

## Use

{_USES[format]}

## Certificate

{certificate.to_markdown()}
`certificate.json` has the figures, the versions and the checksums.
"""
