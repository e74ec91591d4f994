"""The tasks of Wu and Dredze (EMNLP 2020): one file a task, and a line in this table."""

from train.finetune.ner import NER
from train.finetune.parsing import PARSING
from train.finetune.pos import POS
from train.finetune.task import TransferTask
from train.finetune.xnli import XNLI

__all__ = ["TASKS", "TransferTask"]

TASKS: dict[str, TransferTask] = {task.name: task for task in (XNLI, NER, POS, PARSING)}
