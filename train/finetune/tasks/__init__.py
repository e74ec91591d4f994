"""The tasks of Wu and Dredze (EMNLP 2020): one file a task, and a line in this table."""

from train.finetune.tasks.ner import NER
from train.finetune.tasks.parsing import PARSING
from train.finetune.tasks.pos import POS
from train.finetune.tasks.task import Task
from train.finetune.tasks.xnli import XNLI

__all__ = ["TASKS", "Task"]

TASKS: dict[str, Task] = {task.name: task for task in (XNLI, NER, POS, PARSING)}
