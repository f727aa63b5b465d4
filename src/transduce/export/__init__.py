"""Models to and from other systems: exports with a certificate, and imports that are checked in the same way.

from transduce.export import export_model, import_huggingface, import_torch
export_model("models/m30k", "exports/m30k", "huggingface")
"""

from transduce.export.certificate import Certificate, Thresholds
from transduce.export.exports import FORMATS, export_model
from transduce.export.imports import import_huggingface, import_torch

__all__ = [
    "FORMATS",
    "Certificate",
    "Thresholds",
    "export_model",
    "import_huggingface",
    "import_torch",
]
