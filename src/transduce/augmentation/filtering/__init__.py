"""Cleans parallel corpora: finds and drops pairs that would harm training, without any model.

report = filter_corpus(DataConfig(train=(("train.en", "train.fr"),)), "clean")
print(report)
"""

from transduce.augmentation.filtering.corpus_filter import filter_corpus
from transduce.augmentation.filtering.report import Distribution, FilterReport
from transduce.config.filter_options import RULES, FilterOptions
from transduce.data.dropped import Dropped

__all__ = ["RULES", "Distribution", "Dropped", "FilterOptions", "FilterReport", "filter_corpus"]
