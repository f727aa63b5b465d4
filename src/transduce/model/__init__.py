"""The Transformer of §3. It knows nothing of decoding, training or export."""

from transduce.model.cache import DecoderState, Memory
from transduce.model.inference_weights import prepack
from transduce.model.transformer import Transformer

__all__ = ["DecoderState", "Memory", "Transformer", "prepack"]
