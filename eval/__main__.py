"""``python -m eval TASK``: measures an encoder before and after each transform.

python -m eval udhr                              # make demo
python -m eval tatoeba --data data/tatoeba
python -m eval lareqa --data data/xquad-r
python -m eval sts17 --data data/sts17
python -m eval bucc --data data/bucc2018
python -m eval make-bucc --data data/bitext      # files in BUCC's form from other parallel text
python -m eval bitext --data data/bitext         # held-out pairs of any parallel text
python -m eval code-switch --data data/tatoeba   # some words already English
python -m eval make-dictionaries                 # bilingual dictionaries from FreeDict's
python -m eval amazon --data data/amazon         # trained on English, tested on others
python -m eval pool --data pool                  # preference and clusters in any multilingual pool
python -m eval leakage results/meat-oracle       # meaning and language heads of train.disentangle
python -m eval all --profile small               # all of these on what data there is, and a report
python -m eval report results                    # a page of all results
python -m eval compare results/tatoeba           # a paired test of two methods
python -m eval geometry                          # what each method does to the space, with figures
python -m eval curve                             # accuracy against the number of sentences fitted on
python -m eval sweep                             # every layer, method and rank in one pass
python -m eval algorithm1                        # LSAR's printed algorithm in float32
python -m eval bench                             # speed beside sentence-transformers
python -m eval fitbench                          # fits beside numpy and scikit-learn
python -m eval headsbench                        # training steps beside a PyTorch loop
python -m eval precision                         # bfloat16 beside float32
python -m eval engine                            # the bundled encoder beside its wheel's engine
"""

import sys
from typing import Annotated

import tyro

from eval.algorithm1 import Algorithm1
from eval.amazon import Amazon
from eval.bench import Bench
from eval.bitext import Bitext
from eval.bucc import Bucc
from eval.code_switch import CodeSwitch
from eval.compare import Compare
from eval.curve import Curve
from eval.dictionaries import MakeDictionaries
from eval.engine import Engine
from eval.fit_bench import FitBench
from eval.geometry import Geometry
from eval.heads_bench import HeadsBench
from eval.lareqa import Lareqa
from eval.leakage import Leakage
from eval.make_bucc import MakeBucc
from eval.pool import Pool
from eval.precision import Precision
from eval.report import Report
from eval.sts17 import Sts17
from eval.suite import Suite
from eval.sweep import Sweep
from eval.tatoeba import Tatoeba
from eval.udhr import Udhr

TASKS = (
    Annotated[Udhr, tyro.conf.subcommand("udhr")]
    | Annotated[Tatoeba, tyro.conf.subcommand("tatoeba")]
    | Annotated[Lareqa, tyro.conf.subcommand("lareqa")]
    | Annotated[Sts17, tyro.conf.subcommand("sts17")]
    | Annotated[Bucc, tyro.conf.subcommand("bucc")]
    | Annotated[MakeBucc, tyro.conf.subcommand("make-bucc")]
    | Annotated[Bitext, tyro.conf.subcommand("bitext")]
    | Annotated[CodeSwitch, tyro.conf.subcommand("code-switch")]
    | Annotated[MakeDictionaries, tyro.conf.subcommand("make-dictionaries")]
    | Annotated[Amazon, tyro.conf.subcommand("amazon")]
    | Annotated[Pool, tyro.conf.subcommand("pool")]
    | Annotated[Leakage, tyro.conf.subcommand("leakage")]
    | Annotated[Suite, tyro.conf.subcommand("all")]
    | Annotated[Report, tyro.conf.subcommand("report")]
    | Annotated[Compare, tyro.conf.subcommand("compare")]
    | Annotated[Geometry, tyro.conf.subcommand("geometry")]
    | Annotated[Curve, tyro.conf.subcommand("curve")]
    | Annotated[Sweep, tyro.conf.subcommand("sweep")]
    | Annotated[Algorithm1, tyro.conf.subcommand("algorithm1")]
    | Annotated[Bench, tyro.conf.subcommand("bench")]
    | Annotated[FitBench, tyro.conf.subcommand("fitbench")]
    | Annotated[HeadsBench, tyro.conf.subcommand("headsbench")]
    | Annotated[Precision, tyro.conf.subcommand("precision")]
    | Annotated[Engine, tyro.conf.subcommand("engine")]
)


def main(arguments: list[str] | None = None) -> int:
    """Runs one task; what the user got wrong is one line, not a traceback."""
    task = tyro.cli(
        TASKS, prog="python -m eval", description="Measures an encoder before and after each transform.", args=arguments
    )
    try:
        task.run()
    except (ValueError, OSError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
