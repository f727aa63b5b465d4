"""The Transformer of §3. It does not depend on decoding, training or export."""

from transduce.model.cache import DecoderState, Memory
from transduce.model.inference_weights import prepack
from transduce.model.transformer import Transformer

__all__ = ["DecoderState", "Memory", "Transformer", "prepack"]
