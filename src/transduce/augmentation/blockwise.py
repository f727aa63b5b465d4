"""Blockwise parallel decoding (Stern, Shazeer, Uszkoreit 2018): the data that a model's further heads learn from.

The heads propose what the model itself will write. So they learn from its own greedy translations of the training
sources, as a student does from its teacher's, which the paper found to work best.
"""

from collections.abc import Callable
from pathlib import Path

from transduce.augmentation.distilled_data import distill_parts, with_distilled_data
from transduce.augmentation.translated_text import CorpusJob
from transduce.bundle import Bundle
from transduce.config import Config, DecodeConfig
from transduce.data.corpus import locate
from transduce.training.ancestor import require_ancestor
from transduce.training.device import Compute
from transduce.training.distributed import Ranks, local_device
from transduce.training.run_folder import checkpoints
from transduce.translation.translator import Translator


def with_own_targets(
    config: Config, model: Path, run: Path, *, show_progress: bool = False, warn: Callable[[str], None] | None = None
) -> Config:
    """Returns `config` with the model's own greedy translations as training targets, after making them in `run`.

    Where an earlier call was stopped, this one continues. Of several processes, one translates. A training that has
    begun has its data, and nothing is translated.

    Args:
        config: of the training; `init.model` names the model.
        model: the model folder.
        run: the run folder; the translations are in its folder `distilled`.
        show_progress: whether to show a bar with an estimate of the time left.
        warn: called with each warning; None issues Python's.

    Raises:
        ConfigError: the recipe describes another model.
        DataError: a corpus cannot be read.
        BundleError: the model folder is damaged.
    """
    if checkpoints(run):
        return with_distilled_data(config, run)
    compute = Compute.of(local_device(config.train.device), config.train.precision)
    ranks = Ranks.join(compute.device)
    with ranks.watched(compute.device):
        if ranks.is_main:
            require_ancestor(run, config)
            bundle, decode = Bundle.load(model), config.decode
            parts = locate(config.data, progress=show_progress).train
            search = DecodeConfig(
                beam_size=1, length_penalty=decode.length_penalty, max_extra_tokens=decode.max_extra_tokens
            )
            job = CorpusJob(options=search, progress=show_progress, warn=warn)
            distill_parts(Translator.load(model, device=config.train.device), bundle, config, parts, run, job)
        ranks.wait_for_long_work()
    return with_distilled_data(config, run)
