"""Makes a small and fast student of a large model: distilled data, training, shortlist, int8, and a report.

The recipe names the data and says how the student is trained; it may be the teacher's own. The teacher translates the
training sources, and the student learns from these translations. The student has a deep encoder and a shallow decoder,
because most of the time of a translation is spent in the decoder. The last tenth of the training tunes it for int8,
unless train.int8_tuning_steps says otherwise.

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
from functools import partial
from typing import TYPE_CHECKING

from transduce.cli.arguments import add_cluster, add_ensemble, add_machine, add_option, require_cluster
from transduce.cli.open_model import loaded_workers, open_translator
from transduce.cli.options import add_choice, add_number, add_path, add_settings, add_switch, add_text, whole
from transduce.cli.output import print_report, say, warn
from transduce.cli.requirements import require_training

if TYPE_CHECKING:
    from transduce.augmentation.student import Student

SUMMARY = "make a small and fast student of a large model, and measure both"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    add_path(parser, "model", "TEACHER", "model folder of the teacher")
    add_path(parser, "recipe", "RECIPE", "TOML file: the data, and how the student is trained")
    add_path(parser, "--output", "DIR", "folder to write or to continue", required=True)
    student = parser.add_argument_group("student")
    add_text(student, "--preset", "NAME", "its shape: student-6-1, student-6-2, student-tiny", default="")
    add_settings(student)
    add_switch(student, "--from-teacher", "give it the teacher's width, and start from some of the teacher's layers")
    add_switch(student, "--own-vocabulary", "learn a vocabulary as the recipe's [text] says; default: the teacher's")
    add_number(student, "--candidates", whole(1, 1_000_000), "K", "shortlist entries for each source piece", 50)
    add_number(student, "--frequent", whole(0, 1_000_000), "F", "frequent pieces that are in every shortlist", 100)
    teacher = parser.add_argument_group("the teacher's translations")
    add_option(teacher, "beam_size")
    nearest = "keep the translation of each beam that is closest to the reference"
    add_choice(teacher, "--nearest-reference", ("bleu", "chrf"), nearest)
    add_ensemble(parser)
    add_machine(parser)
    add_cluster(parser)


def run(args: argparse.Namespace) -> int:
    """Makes the student, and returns the exit code: 128 + signal where one stopped its training."""
    require_training()
    require_cluster(args)
    from transduce.augmentation.student import StudentJob, make_student, student_config

    config = student_config(args.recipe, args.set, args.preset, from_teacher=args.model if args.from_teacher else None)
    opened = open_translator(args, directed=False)  # the recipe names it
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
        warn=warn,
    )
    return _report(make_student(job, partial(loaded_workers, args, opened)))


def _report(student: "Student") -> int:
    from transduce.cli.train import stopped_by

    if student.comparison is None:
        assert student.outcome is not None  # it was a signal that ended the training
        return stopped_by(student.outcome, "The same command continues.")
    print_report(student.comparison.to_markdown())
    say(f"the student: {student.model}; for CTranslate2: {student.exported}")
    return 0
