"""Makes a small and fast student of a large model: distilled data, training, shortlist, int8, and a report.

The recipe names the data and says how the student is trained; it may be the teacher's own. The teacher translates the
training sources, and the student learns from these translations. The student has a deep encoder and a shallow decoder,
because most of the time of a translation is spent in the decoder.

examples:
  transduce student runs/teacher/model mine.toml --output runs/student
  transduce student runs/teacher/model mine.toml --output runs/student --preset student-tiny
  transduce student runs/teacher/model mine.toml --output runs/student --set train.max_steps=20000
  transduce student runs/teacher/model mine.toml --output runs/student --quantization int8 --nearest-reference chrf
  transduce student runs/teacher/model mine.toml --output runs/student --from-teacher --set train.max_steps=4000

OUTPUT is a folder:
  distilled/          the teacher's translations, for each training corpus
  data/, run/         the training; run/model is the student, with its shortlist
  ctranslate2-int8/   the student for CTranslate2, in 8 bits, with its shortlist
  report.md, .json    BLEU, chrF, lines per second, size and cold start, of teacher and student

If the command is stopped, run it again to continue with the same stage.

  student-6-1    6 encoder layers, 1 decoder layer
  student-6-2    6 and 2 layers: a little better, and a little slower
  student-tiny   6 and 2 layers, narrower

--preset sets the shape. Without it, the shape is that of the recipe if the recipe starts from one of these presets, or
else student-6-2. --set model.d_model=192 and similar settings change it. With --from-teacher, only the numbers of
layers come from there: the student is as wide as the teacher, and starts from its weights. It learns in fewer steps,
and is slower than a narrow one. docs/guides/students.md helps to choose.
"""

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from transduce.cli.arguments import add_cluster, add_ensemble, add_machine, add_option, require_cluster
from transduce.cli.numbers import whole
from transduce.cli.open_model import loaded_workers, open_translator
from transduce.cli.output import print_report

if TYPE_CHECKING:
    from transduce.augmentation.student import Student

SUMMARY = "make a small and fast student of a large model, and measure both"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("model", metavar="TEACHER", type=Path, help="model folder of the teacher")
    parser.add_argument(
        "recipe", metavar="RECIPE", type=Path, help="TOML file: the data, and how the student is trained"
    )
    parser.add_argument("--output", metavar="DIR", type=Path, required=True, help="folder to write or to continue")
    student = parser.add_argument_group("student")
    student.add_argument(
        "--preset", metavar="NAME", default="", help="its shape: student-6-1, student-6-2, student-tiny"
    )
    student.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="change one value of the recipe, such as train.max_steps=2000; may be repeated",
    )
    student.add_argument(
        "--from-teacher",
        action="store_true",
        help="give it the teacher's width, and start from some of the teacher's layers",
    )
    student.add_argument(
        "--own-vocabulary",
        action="store_true",
        help="learn a vocabulary as the recipe's [text] says; default: the teacher's",
    )
    candidates = "shortlist entries for each source piece; default: %(default)s"
    student.add_argument("--candidates", type=whole(1, 1_000_000), default=50, metavar="K", help=candidates)
    frequent = "frequent pieces that are in every shortlist; default: %(default)s"
    student.add_argument("--frequent", type=whole(0, 1_000_000), default=100, metavar="F", help=frequent)
    teacher = parser.add_argument_group("the teacher's translations")
    add_option(teacher, "beam_size")
    teacher.add_argument(
        "--nearest-reference",
        choices=("bleu", "chrf"),
        help="keep the translation of each beam that is closest to the reference",
    )
    add_ensemble(parser)
    add_machine(parser)
    add_cluster(parser)


def run(args: argparse.Namespace) -> int:
    """Makes the student, and returns the exit code: 128 + signal where one stopped its training."""
    from transduce.cli.requirements import require_training

    require_training()
    require_cluster(args)
    from transduce.augmentation.student import StudentJob, make_student, student_config

    config = student_config(args.recipe, args.set, args.preset, from_teacher=args.model if args.from_teacher else None)
    opened = open_translator(args)
    job = StudentJob(
        teacher=args.model,
        config=config,
        output=args.output,
        settings=args.set,
        search=opened.options,
        nearest=args.nearest_reference,
        own_vocabulary=args.own_vocabulary,
        candidates=args.candidates,
        frequent=args.frequent,
        progress=not args.quiet,
        warn=lambda message: print(f"transduce: warning: {message}", file=sys.stderr),
    )
    return _report(args, make_student(job, partial(loaded_workers, args, opened)))


def _report(args: argparse.Namespace, student: "Student") -> int:
    from transduce.cli.train import stopped_by

    if student.comparison is None:
        assert student.outcome is not None  # it was a signal that ended the training
        return stopped_by(student.outcome, "The same command continues.")
    print_report(student.comparison.to_markdown())
    print(f"transduce: the student: {student.model}; for CTranslate2: {student.exported}", file=sys.stderr)
    return 0
