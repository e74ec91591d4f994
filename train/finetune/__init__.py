"""``python -m train.finetune``: zero-shot transfer of a task from English to other languages."""
